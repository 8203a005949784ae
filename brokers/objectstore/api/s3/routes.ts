import { ServiceError } from '@space/broker-kit';
import {
  type Bucket,
  decodePath,
  decodeQueryValue,
  isBucket,
  type ObjectKey,
  parseKey,
} from '../../objects/object-key.ts';
import { noSuchBucket, notImplemented } from './errors.ts';
import { nameOfParameter } from './known-names.ts';

/** The supported operations, by S3's names. */
export type S3Operation =
  | 'ListBuckets'
  | 'HeadBucket'
  | 'CreateBucket'
  | 'GetBucketLocation'
  | 'GetBucketVersioning'
  | 'ListObjects'
  | 'ListObjectsV2'
  | 'ListMultipartUploads'
  | 'DeleteObjects'
  | 'GetObject'
  | 'GetObjectAttributes'
  | 'GetObjectAcl'
  | 'PutObjectAcl'
  | 'GetObjectTagging'
  | 'GetBucketAcl'
  | 'PutBucketAcl'
  | 'HeadObject'
  | 'PutObject'
  | 'CopyObject'
  | 'DeleteObject'
  | 'CreateMultipartUpload'
  | 'UploadPart'
  | 'UploadPartCopy'
  | 'ListParts'
  | 'CompleteMultipartUpload'
  | 'AbortMultipartUpload';

interface Rule {
  readonly at: 'service' | 'bucket' | 'object';
  readonly method: string;
  readonly operation: S3Operation;
  /** Parameters that select this operation. */
  readonly needs?: readonly string[];
  /** Further parameters that the operation accepts. */
  readonly knows?: readonly string[];
  /** Whether the header of a copy must be present. */
  readonly copy?: boolean;
}

const LISTING = ['prefix', 'delimiter', 'max-keys', 'encoding-type'];

/** Parameters of a read that replace headers of its answer; they are signed like the rest of the query. */
export const OVERRIDES: Readonly<Record<string, string>> = {
  'response-content-type': 'content-type',
  'response-content-disposition': 'content-disposition',
  'response-content-encoding': 'content-encoding',
  'response-content-language': 'content-language',
  'response-cache-control': 'cache-control',
  'response-expires': 'expires',
};
const READING = ['partNumber', ...Object.keys(OVERRIDES)];

/** The first matching rule counts. Anything that no rule matches is not supported, however it is written. */
const RULES: readonly Rule[] = [
  {
    at: 'service',
    method: 'GET',
    operation: 'ListBuckets',
    knows: ['max-buckets', 'prefix', 'continuation-token'],
  },
  { at: 'bucket', method: 'HEAD', operation: 'HeadBucket' },
  { at: 'bucket', method: 'PUT', operation: 'CreateBucket' },
  { at: 'bucket', method: 'GET', operation: 'GetBucketAcl', needs: ['acl'] },
  { at: 'bucket', method: 'PUT', operation: 'PutBucketAcl', needs: ['acl'] },
  { at: 'bucket', method: 'GET', operation: 'GetBucketLocation', needs: ['location'] },
  { at: 'bucket', method: 'GET', operation: 'GetBucketVersioning', needs: ['versioning'] },
  {
    at: 'bucket',
    method: 'GET',
    operation: 'ListMultipartUploads',
    needs: ['uploads'],
    knows: ['prefix', 'delimiter', 'encoding-type', 'max-uploads', 'key-marker', 'upload-id-marker'],
  },
  {
    at: 'bucket',
    method: 'GET',
    operation: 'ListObjectsV2',
    needs: ['list-type'],
    knows: [...LISTING, 'continuation-token', 'start-after', 'fetch-owner'],
  },
  { at: 'bucket', method: 'GET', operation: 'ListObjects', knows: [...LISTING, 'marker'] },
  { at: 'bucket', method: 'POST', operation: 'DeleteObjects', needs: ['delete'] },
  {
    at: 'object',
    method: 'GET',
    operation: 'ListParts',
    needs: ['uploadId'],
    knows: ['max-parts', 'part-number-marker', 'encoding-type'],
  },
  { at: 'object', method: 'GET', operation: 'GetObjectAttributes', needs: ['attributes'] },
  { at: 'object', method: 'GET', operation: 'GetObjectAcl', needs: ['acl'] },
  { at: 'object', method: 'PUT', operation: 'PutObjectAcl', needs: ['acl'] },
  { at: 'object', method: 'GET', operation: 'GetObjectTagging', needs: ['tagging'] },
  { at: 'object', method: 'GET', operation: 'GetObject', knows: READING },
  { at: 'object', method: 'HEAD', operation: 'HeadObject', knows: READING },
  { at: 'object', method: 'PUT', operation: 'UploadPartCopy', needs: ['uploadId', 'partNumber'], copy: true },
  { at: 'object', method: 'PUT', operation: 'UploadPart', needs: ['uploadId', 'partNumber'], copy: false },
  { at: 'object', method: 'PUT', operation: 'CopyObject', copy: true },
  { at: 'object', method: 'PUT', operation: 'PutObject', copy: false },
  { at: 'object', method: 'DELETE', operation: 'AbortMultipartUpload', needs: ['uploadId'] },
  { at: 'object', method: 'DELETE', operation: 'DeleteObject' },
  { at: 'object', method: 'POST', operation: 'CreateMultipartUpload', needs: ['uploads'] },
  { at: 'object', method: 'POST', operation: 'CompleteMultipartUpload', needs: ['uploadId'] },
];

export interface S3Match {
  readonly operation: S3Operation;
  /** Undefined for the list of buckets. */
  readonly bucket: Bucket | undefined;
  /** The path after the bucket, not decoded. */
  readonly rawKey: string;
  readonly query: ReadonlyMap<string, string>;
}

/** Matches paths of the form `/bucket/key`. */
export function matchS3(
  method: string,
  path: string,
  rawQuery: string | undefined,
  isCopy: boolean,
): S3Match {
  const [, name = '', slash = '', rawKey = ''] = /^\/([^/]*)(\/?)(.*)$/s.exec(path) ?? [];
  const at = name === '' && slash === '' ? 'service' : rawKey === '' ? 'bucket' : 'object';
  const query = queryOf(rawQuery);
  const rules = RULES.filter((rule) => rule.at === at && rule.method === method);
  if (rules.length === 0) throw new ServiceError('method_not_allowed', 'no such method');
  const rule = rules.find(({ needs = [], knows = [], copy }) => {
    const names = new Set([...needs, ...knows]);
    return (
      (copy === undefined || copy === isCopy) &&
      needs.every((need) => query.has(need)) &&
      [...query.keys()].every((given) => names.has(given))
    );
  });
  if (rule === undefined) throw notImplemented(nameOfParameter(query.keys()));
  if (at === 'service') return { operation: rule.operation, bucket: undefined, rawKey, query };
  const bucket = decodePath(name) ?? '';
  if (!isBucket(bucket)) throw noSuchBucket();
  return { operation: rule.operation, bucket, rawKey, query };
}

/** The query's parameters, each at most once. `x-id` is a name of the operation that some SDKs add. */
function queryOf(raw: string | undefined): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const pair of raw === undefined || raw === '' ? [] : raw.split('&')) {
    const [, rawName = '', rawValue = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
    const name = decodeQueryValue(rawName);
    const value = decodeQueryValue(rawValue);
    if (name === undefined || value === undefined || values.has(name))
      throw new ServiceError('invalid_request', 'query parameter');
    values.set(name, value);
  }
  values.delete('x-id');
  return values;
}

export function bucketOf({ bucket }: S3Match): Bucket {
  if (bucket === undefined) throw noSuchBucket();
  return bucket;
}

export function keyOf({ rawKey }: S3Match): ObjectKey {
  const key = parseKey(decodePath(rawKey) ?? '');
  if (key === undefined) throw new ServiceError('invalid_request', 'not a key');
  return key;
}
