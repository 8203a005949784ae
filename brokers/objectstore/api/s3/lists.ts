import { ServiceError } from '@space/broker-kit';
import { type Bucket, type KeyPrefix, parsePrefix } from '../../objects/object-key.ts';
import { MAX_KEYS, type ObjectCall, type ObjectPage, type ObjectStore } from '../../objects/types.ts';
import { encodePath } from '../../upstream/sigv4.ts';
import { documentInTurns } from '../../upstream/sinks.ts';
import type { ListedObject } from '../../upstream/types.ts';
import type { XmlElement } from '../../upstream/xml.ts';
import type { Cursors } from '../cursors.ts';
import { numberOf } from '../exchange.ts';
import { notImplemented } from './errors.ts';
import type { Admitted } from './request.ts';
import { bucketOf } from './routes.ts';

type Query = ReadonlyMap<string, string>;

/** What all kinds of lists share. */
interface Listing {
  readonly prefix: KeyPrefix;
  readonly delimiter: '/' | undefined;
  readonly limit: number;
  /** Encodes a name for the answer. */
  readonly written: (name: string) => string;
  readonly echoed: readonly XmlElement[];
}

/** Empty, or the id of an upload. */
const UPLOAD_MARKER = /^(?:[0-9a-f]{32})?$/;
/** Sorts after every key with a common prefix. */
const BEYOND = '\u{10ffff}';

export async function listObjectsV2(
  store: ObjectStore,
  cursors: Cursors,
  admitted: Admitted,
): Promise<string> {
  const { call, query } = admitted;
  const bucket = bucketOf(admitted);
  if (query.get('list-type') !== '2') throw new ServiceError('invalid_request', 'list-type');
  const { prefix, delimiter, limit, written, echoed } = listing(bucket, query, 'max-keys');
  const owner = [call.tenant.prefixes[bucket], prefix, delimiter ?? ''];
  const given = query.get('continuation-token');
  const token = given === undefined ? undefined : cursors.open(owner, given);
  if (given !== undefined && token === undefined)
    throw new ServiceError('invalid_request', 'continuation token');
  const start = query.get('start-after');
  const after = start === undefined || token !== undefined ? undefined : prefixOf(start);
  const page = await pageOf(store, call, bucket, { prefix, delimiter, token, after, limit });
  const next =
    page.next === undefined ? [] : [['NextContinuationToken', cursors.seal(owner, page.next)] as const];
  return documentOf(page, written, call, [
    ...echoed,
    ...(start === undefined ? [] : [['StartAfter', written(start)] as const]),
    ...(given === undefined ? [] : [['ContinuationToken', given] as const]),
    ['KeyCount', page.objects.length + page.prefixes.length],
    ['MaxKeys', limit],
    ['IsTruncated', page.next !== undefined],
    ...next,
  ]);
}

export async function listObjects(store: ObjectStore, admitted: Admitted): Promise<string> {
  const { call, query } = admitted;
  const bucket = bucketOf(admitted);
  const { prefix, delimiter, limit, written, echoed } = listing(bucket, query, 'max-keys');
  const marker = query.get('marker') ?? '';
  // A marker that is a common prefix stands for all keys below it. The list's own prefix is none, since a directory's
  // marker has that name.
  const below = marker.startsWith(prefix) ? marker.slice(prefix.length) : '';
  const rolledUp = delimiter !== undefined && below !== '' && below.indexOf(delimiter) === below.length - 1;
  const from = marker === '' ? undefined : prefixOf(marker);
  // It may be longer than a key.
  const after = rolledUp ? (`${marker}${BEYOND}` as KeyPrefix) : from;
  const page = await pageOf(store, call, bucket, { prefix, delimiter, after, limit });
  const last = [...page.objects.map(({ key }) => key), ...page.prefixes].sort(byBytes).at(-1);
  const next = page.next === undefined || last === undefined ? [] : [['NextMarker', written(last)] as const];
  return documentOf(page, written, call, [
    ...echoed,
    ['Marker', written(marker)],
    ['MaxKeys', limit],
    ['IsTruncated', page.next !== undefined],
    ...next,
  ]);
}

export async function listUploads(store: ObjectStore, admitted: Admitted): Promise<string> {
  const { call, query } = admitted;
  const bucket = bucketOf(admitted);
  const { prefix, delimiter, limit, written, echoed } = listing(bucket, query, 'max-uploads');
  if (delimiter !== undefined) throw notImplemented('the parameter delimiter in a list of uploads');
  const afterKey = prefixOf(query.get('key-marker') ?? '');
  const givenId = query.get('upload-id-marker') ?? '';
  if (!UPLOAD_MARKER.test(givenId)) throw new ServiceError('invalid_request', 'upload-id-marker');
  // Without an upload id, the list starts after all uploads of the key.
  const afterId = givenId === '' && afterKey !== '' ? 'g' : givenId;
  const found = await store.listUploads(call, bucket, { prefix, afterKey, afterId, limit: limit + 1 });
  const uploads = found.slice(0, limit);
  const last = uploads.at(-1);
  const truncated = found.length > limit && last !== undefined;
  const markers = truncated
    ? [['NextKeyMarker', written(last.key)] as const, ['NextUploadIdMarker', last.id] as const]
    : [];
  const first: readonly XmlElement[] = [
    ...echoed.map(([name, value]) => [name === 'Name' ? 'Bucket' : name, value] as const),
    ['KeyMarker', written(afterKey)],
    ['UploadIdMarker', givenId],
    ['MaxUploads', limit],
    ['IsTruncated', truncated],
    ...markers,
  ];
  const upload = ({ key, id, createdAt }: (typeof uploads)[number]): XmlElement => [
    'Upload',
    [
      ['Key', written(key)],
      ['UploadId', id],
      ['StorageClass', 'STANDARD'],
      ['Initiated', createdAt.toISOString()],
    ],
  ];
  return documentInTurns('ListMultipartUploadsResult', uploads, upload, { inTurn: call.inTurn, first });
}

function listing(bucket: Bucket, query: Query, limitName: string): Listing {
  const delimiter = query.get('delimiter') ?? '';
  if (delimiter !== '' && delimiter !== '/') throw notImplemented('a delimiter other than a slash');
  const encoding = query.get('encoding-type');
  if (encoding !== undefined && encoding !== 'url')
    throw new ServiceError('invalid_request', 'encoding-type');
  const written = encoding === undefined ? (name: string) => name : encodePath;
  const text = query.get('prefix') ?? '';
  return {
    prefix: prefixOf(text),
    delimiter: delimiter === '' ? undefined : delimiter,
    limit: Math.min(MAX_KEYS, numberOf(query.get(limitName), MAX_KEYS, 0, 999_999_999)),
    written,
    echoed: [
      ['Name', bucket],
      ['Prefix', written(text)],
      ...(delimiter === '' ? [] : [['Delimiter', delimiter] as const]),
      ...(encoding === undefined ? [] : [['EncodingType', encoding] as const]),
    ],
  };
}

async function pageOf(
  store: ObjectStore,
  call: ObjectCall,
  bucket: Bucket,
  query: Parameters<ObjectStore['list']>[2],
): Promise<ObjectPage> {
  if (query.limit === 0) return { objects: [], prefixes: [], next: undefined };
  return store.list(call, bucket, query);
}

/** The document of a page of objects and common prefixes. */
function documentOf(
  { objects, prefixes }: ObjectPage,
  written: Listing['written'],
  { inTurn }: ObjectCall,
  first: readonly XmlElement[],
): Promise<string> {
  const item = (one: string | ListedObject): XmlElement =>
    typeof one === 'string'
      ? ['CommonPrefixes', [['Prefix', written(one)]]]
      : [
          'Contents',
          [
            ['Key', written(one.key)],
            ['LastModified', one.modified],
            ['ETag', one.etag],
            ['Size', one.size],
            ['StorageClass', 'STANDARD'],
          ],
        ];
  return documentInTurns('ListBucketResult', [...objects, ...prefixes], item, { inTurn, first });
}

function prefixOf(text: string): KeyPrefix {
  const prefix = parsePrefix(text);
  if (prefix === undefined) throw new ServiceError('invalid_request', 'not a prefix');
  return prefix;
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
