import type { ServerResponse } from 'node:http';
import { ServiceError } from '@space/broker-kit';
import type { Bucket } from '../data/address.ts';
import type { Exchange, Protocol } from '../data/exchange.ts';
import {
  answerHeaders,
  objectHeaders,
  type Received,
  readConditions,
  receivedHeaders,
  writeConditions,
} from '../data/headers.ts';
import { numberOf } from '../data/json/routes.ts';
import { decodePath, type ObjectKey, parseKey } from '../data/keys.ts';
import type { Gate } from '../data/plane.ts';
import type { DataKeys, Seal } from '../data/seal.ts';
import { type Call, MAX_KEYS, type ObjectStore } from '../data/store.ts';
import type { Tenants } from '../data/tenants.ts';
import {
  childrenOf,
  parseXml,
  textOf,
  type XmlElement,
  XmlError,
  type XmlNode,
  xmlDocument,
} from '../upstream/xml.ts';
import { type FrontBody, frontBody, readBody } from './body.ts';
import { FrontError, s3AnswerOf } from './errors.ts';
import { checkS3Headers, grantOf, noSuchBucket, sourceOf } from './headers.ts';
import { handleOf, secretsOf } from './keys.ts';
import { listObjects, listObjectsV2, listUploads } from './lists.ts';
import { matchS3, type S3Match, type S3Operation } from './routes.ts';
import { parseClaim, type Verified, verify } from './signature.ts';

const METADATA = 'x-amz-meta-';
const DOCUMENT_LIMIT = 2 * 1024 * 1024;
const ETAG = /^"?([\x21\x23-\x7e]{1,128})"?$/;
/** Verified in place of a principal that is not there, so that a refusal costs the same work as any other. */
const NOBODY = Buffer.alloc(32);

export interface FrontOptions {
  readonly gate: Gate;
  readonly tenants: Tenants;
  readonly store: ObjectStore;
  readonly cursors: Seal;
  readonly keys: DataKeys;
  readonly now: () => Date;
}

interface Admitted extends S3Match {
  readonly exchange: Exchange;
  readonly response: ServerResponse;
  readonly call: Call;
  readonly headers: Received;
  readonly verified: Verified;
}

type Handler = (admitted: Admitted) => Promise<void>;

/** S3 for unmodified clients: the same store under S3's names, path-style, with the buckets `data` and `shared`. */
export function createS3Protocol({ gate, tenants, store, cursors, keys, now }: FrontOptions): Protocol {
  const handlers: Readonly<Record<S3Operation, Handler>> = {
    ListBuckets: async (one) => {
      const created = new Date(0).toISOString();
      const bucket = (name: Bucket) =>
        [
          'Bucket',
          [
            ['Name', name],
            ['CreationDate', created],
          ],
        ] as const;
      const owner = ['Owner', [['ID', 'space']]] as const;
      answer(one, 'ListAllMyBucketsResult', [owner, ['Buckets', [bucket('data'), bucket('shared')]]]);
    },
    HeadBucket: async ({ response }) => void response.writeHead(200, { 'content-length': 0 }).end(),
    CreateBucket: async () => {
      throw new FrontError(
        'already_exists',
        { status: 409, code: 'BucketAlreadyOwnedByYou' },
        'bucket is there',
      );
    },
    GetBucketLocation: async (one) => answer(one, 'LocationConstraint', []),
    GetBucketVersioning: async (one) => answer(one, 'VersioningConfiguration', []),
    ListObjects: async (one) => xml(one, await listObjects(store, one.call, bucketOf(one), one.query)),
    ListObjectsV2: async (one) =>
      xml(one, await listObjectsV2(store, cursors, one.call, bucketOf(one), one.query)),
    ListMultipartUploads: async (one) =>
      xml(one, await listUploads(store, one.call, bucketOf(one), one.query)),
    DeleteObjects: async (one) => {
      const bucket = bucketOf(one);
      const node = await document(one, 'Delete');
      const asked = childrenOf(node, 'Object').map((child) => textOf(child, 'Key') ?? '');
      if (asked.length < 1 || asked.length > MAX_KEYS) throw malformed();
      const keysOf = asked.map((text) => ({ text, key: parseKey(text) }));
      const valid = keysOf.flatMap(({ key }) => key ?? []);
      const failed = valid.length === 0 ? new Set<string>() : await store.deleteMany(one.call, bucket, valid);
      const quiet = textOf(node, 'Quiet') === 'true';
      const results = keysOf.flatMap(({ text, key }): XmlElement[] => {
        if (key === undefined)
          return [
            [
              'Error',
              [
                ['Key', text],
                ['Code', 'InvalidArgument'],
                ['Message', ''],
              ],
            ],
          ];
        if (failed.has(key))
          return [
            [
              'Error',
              [
                ['Key', text],
                ['Code', 'InternalError'],
                ['Message', ''],
              ],
            ],
          ];
        return quiet ? [] : [['Deleted', [['Key', text]]]];
      });
      answer(one, 'DeleteResult', results);
    },
    GetObject: async (one) => {
      const conditions = readConditions(one.headers);
      const key = readableKey(one);
      gate.transfer(one.exchange);
      await store.get(one.call, { bucket: bucketOf(one), key }, conditions, (head) => {
        one.response.writeHead(head.status, answerHeaders(head.headers, METADATA));
        return one.response;
      });
    },
    HeadObject: async (one) => {
      const place = { bucket: bucketOf(one), key: readableKey(one) };
      const head = await store.head(one.call, place, readConditions(one.headers));
      one.response.writeHead(head.status, answerHeaders(head.headers, METADATA)).end();
    },
    PutObject: async (one) => {
      const body = bodyOf(one);
      // What was verified here is not asked of the upstream again.
      const { 'content-md5': _verified, ...conditions } = writeConditions(one.headers);
      const headers = { ...ownHeaders(one.headers), ...conditions };
      const place = { bucket: bucketOf(one), key: keyOf(one) };
      gate.transfer(one.exchange);
      const { etag } = await store.put(one.call, place, body, headers);
      one.response.writeHead(200, { ...body.checksums, etag, 'content-length': 0 }).end();
    },
    CopyObject: async (one) => {
      const directive = one.headers.get('x-amz-metadata-directive') ?? 'COPY';
      const replace = directive === 'REPLACE';
      if (!replace && directive !== 'COPY') throw new ServiceError('invalid_request', 'metadata directive');
      const headers = { 'x-amz-metadata-directive': directive, ...(replace ? ownHeaders(one.headers) : {}) };
      const to = { bucket: bucketOf(one), key: keyOf(one) };
      const { etag, modified } = await store.copy(one.call, sourceOf(one.headers), to, headers);
      answer(one, 'CopyObjectResult', [
        ['LastModified', modified],
        ['ETag', etag],
      ]);
    },
    DeleteObject: async (one) => {
      const place = { bucket: bucketOf(one), key: parseKey(decodePath(one.rawKey) ?? '') };
      // S3 has nothing to say about the removal of what cannot be.
      if (place.key === undefined) readableKey(one);
      else await store.delete(one.call, { ...place, key: place.key }, one.headers.get('if-match'));
      one.response.writeHead(204).end();
    },
    CreateMultipartUpload: async (one) => {
      const place = { bucket: bucketOf(one), key: keyOf(one) };
      const id = await store.createUpload(one.call, place, ownHeaders(one.headers));
      answer(one, 'InitiateMultipartUploadResult', [
        ['Bucket', place.bucket],
        ['Key', place.key],
        ['UploadId', id],
      ]);
    },
    UploadPart: async (one) => {
      const body = bodyOf(one);
      const at = uploadPartOf(one);
      gate.transfer(one.exchange);
      const { etag } = await store.putPart(one.call, at, body, {});
      one.response.writeHead(200, { ...body.checksums, etag, 'content-length': 0 }).end();
    },
    UploadPartCopy: async (one) => {
      const range = one.headers.get('x-amz-copy-source-range');
      const headers = range === undefined ? {} : { 'x-amz-copy-source-range': range };
      const source = sourceOf(one.headers);
      const { etag, modified } = await store.copyPart(one.call, uploadPartOf(one), source, headers);
      answer(one, 'CopyPartResult', [
        ['LastModified', modified],
        ['ETag', etag],
      ]);
    },
    ListParts: async (one) => {
      const after = numberOf(one.query.get('part-number-marker'), 0, 0, 10_000);
      const limit = Math.min(MAX_KEYS, numberOf(one.query.get('max-parts'), MAX_KEYS, 0, 999_999_999));
      const at = uploadOf(one);
      const { key, parts, next } = await store.listParts(one.call, at, { after, limit });
      answer(one, 'ListPartsResult', [
        ['Bucket', at.bucket],
        ['Key', key],
        ['UploadId', at.id],
        ['PartNumberMarker', after],
        ...(next === undefined ? [] : [['NextPartNumberMarker', next] as const]),
        ['MaxParts', limit],
        ['IsTruncated', next !== undefined],
        ...parts.map(
          ({ number, modified, etag, size }) =>
            [
              'Part',
              [
                ['PartNumber', number],
                ['LastModified', modified],
                ['ETag', etag],
                ['Size', size],
              ],
            ] as const,
        ),
      ]);
    },
    CompleteMultipartUpload: async (one) => {
      const at = uploadOf(one);
      const parts = partsOf(await document(one, 'CompleteMultipartUpload'));
      const { 'content-md5': _checked, ...conditions } = writeConditions(one.headers);
      const { key, etag } = await store.completeUpload(one.call, at, parts, conditions);
      answer(one, 'CompleteMultipartUploadResult', [
        ['Location', `/${at.bucket}/${key}`],
        ['Bucket', at.bucket],
        ['Key', key],
        ['ETag', etag],
      ]);
    },
    AbortMultipartUpload: async (one) => {
      await store.abortUpload(one.call, uploadOf(one));
      one.response.writeHead(204).end();
    },
  };

  /** Who signed the request; the same work for everybody who is turned away. */
  async function authenticate({ request, path, query }: Exchange) {
    const headers = headersOrNone(request.rawHeaders);
    const claim = parseClaim(headers?.get('authorization'));
    const handle = claim === undefined ? undefined : handleOf(claim.accessKeyId);
    const tenant = await tenants.byHandle(handle ?? NOBODY.subarray(0, 16));
    if (headers === undefined || claim === undefined) return undefined;
    const secrets = secretsOf(keys, tenant?.digest ?? NOBODY).map((secret) => secret.reveal());
    const signed = { method: request.method ?? '', path, query, headers };
    const verified = verify(signed, claim, secrets, now());
    if (handle === undefined || tenant === undefined || verified === undefined) return undefined;
    return { tenant, verified, headers };
  }

  async function document(one: Admitted, root: string): Promise<XmlNode> {
    const body = bodyOf(one);
    gate.transfer(one.exchange);
    const bytes = await readBody(body, DOCUMENT_LIMIT);
    try {
      return parseXml(bytes, root);
    } catch (error) {
      if (error instanceof XmlError) throw malformed();
      throw error;
    }
  }

  return {
    serve: async (exchange) => {
      const { request, response } = exchange;
      exchange.operation = 's3';
      const who = await authenticate(exchange);
      const tenant = gate.admit(exchange, who?.tenant);
      if (who === undefined) throw new Error('admitted without a signature');
      const { headers, verified } = who;
      const match = matchS3(
        request.method ?? '',
        exchange.path,
        exchange.query,
        headers.has('x-amz-copy-source'),
      );
      exchange.operation = `s3.${match.operation}`;
      // The bucket is there, whatever it was to be made like.
      if (match.operation !== 'CreateBucket') checkS3Headers(headers);
      const call = { tenant, signal: exchange.abort.signal, grant: grantOf(headers) };
      await handlers[match.operation]({ ...match, exchange, response, call, headers, verified });
    },
    refuse: ({ request, response, traceId }, error) => {
      const { status, code } = s3AnswerOf(error);
      const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${code}</Message><RequestId>${traceId}</RequestId></Error>`;
      response.writeHead(status, {
        'content-type': 'application/xml',
        'content-length': Buffer.byteLength(body),
      });
      response.end(request.method === 'HEAD' ? undefined : body);
    },
  };
}

/** Undefined for headers that two readers might read differently. */
function headersOrNone(rawHeaders: readonly string[]): Received | undefined {
  try {
    return receivedHeaders(rawHeaders);
  } catch {
    return undefined;
  }
}

function bucketOf({ bucket }: Admitted): Bucket {
  if (bucket === undefined) throw noSuchBucket();
  return bucket;
}

function keyOf({ rawKey }: Admitted): ObjectKey {
  const key = parseKey(decodePath(rawKey) ?? '');
  if (key === undefined) throw new ServiceError('invalid_request', 'not a key');
  return key;
}

/** Clients look for directories by names that end in a slash; such an object is never there. */
function readableKey(one: Admitted): ObjectKey {
  const text = decodePath(one.rawKey) ?? '';
  if (text.endsWith('/') && parseKey(text.slice(0, -1)) !== undefined)
    throw new ServiceError('not_found', 'no object is named like a directory');
  return keyOf(one);
}

function uploadOf(one: Admitted): { readonly bucket: Bucket; readonly id: string; readonly key: ObjectKey } {
  return { bucket: bucketOf(one), id: one.query.get('uploadId') ?? '', key: keyOf(one) };
}

function uploadPartOf(one: Admitted) {
  return { ...uploadOf(one), number: numberOf(one.query.get('partNumber'), 0, 1, 10_000) };
}

function bodyOf({ exchange, headers, verified, call }: Admitted): FrontBody {
  return frontBody(exchange.request, headers, verified, call.signal);
}

/** `aws-chunked` names the coding of the message, not of the object. */
function ownHeaders(headers: Received): Record<string, string> {
  const encoding = headers.get('content-encoding');
  if (encoding === undefined) return objectHeaders(headers, METADATA);
  const own = encoding
    .split(',')
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding.toLowerCase() !== 'aws-chunked');
  const changed = new Map(headers);
  if (own.length === 0) changed.delete('content-encoding');
  else changed.set('content-encoding', own.join(','));
  return objectHeaders(changed, METADATA);
}

function partsOf(node: XmlNode): readonly { readonly number: number; readonly etag: string }[] {
  const parts = childrenOf(node, 'Part').map((child) => ({
    number: numberOf(textOf(child, 'PartNumber'), 0, 1, 10_000),
    etag: `"${ETAG.exec(textOf(child, 'ETag') ?? '')?.[1] ?? ''}"`,
  }));
  if (parts.length < 1 || parts.length > 10_000) throw malformed();
  if (parts.some(({ number }, i) => i > 0 && number <= (parts[i - 1]?.number ?? 0)))
    throw new FrontError('invalid_request', { status: 400, code: 'InvalidPartOrder' }, 'order of parts');
  return parts;
}

function malformed(): FrontError {
  return new FrontError(
    'invalid_request',
    { status: 400, code: 'MalformedXML' },
    'not the document of this operation',
  );
}

function answer(one: Admitted, root: string, content: readonly XmlElement[]): void {
  xml(one, xmlDocument(root, content));
}

function xml({ response }: Admitted, body: string): void {
  response.writeHead(200, { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) });
  response.end(body);
}
