import { ServiceError } from '@space/broker-kit';
import { writeConditions } from '../../objects/object-headers.ts';
import type { Bucket, ObjectKey } from '../../objects/object-key.ts';
import { MAX_KEYS, type ObjectStore } from '../../objects/types.ts';
import { S3Error } from '../../upstream/errors.ts';
import { childrenOf, textOf, type XmlNode, type XmlShape } from '../../upstream/xml.ts';
import type { Admission } from '../admission.ts';
import { numberOf, writeHead } from '../exchange.ts';
import { S3Refusal } from './errors.ts';
import { sourceOf } from './headers.ts';
import {
  type Admitted,
  answer,
  answerAlive,
  bodyOf,
  copied,
  document,
  type Handlers,
  malformed,
  ownHeaders,
} from './request.ts';
import { bucketOf, keyOf } from './routes.ts';

type Name =
  | 'CreateMultipartUpload'
  | 'UploadPart'
  | 'UploadPartCopy'
  | 'ListParts'
  | 'CompleteMultipartUpload'
  | 'AbortMultipartUpload';

/** The size of all parts together, as the caller has counted it. */
const OBJECT_SIZE = 'x-amz-mp-object-size';
const COMPLETE: XmlShape = { root: 'CompleteMultipartUpload', items: ['Part'], most: 10_000 };
/** The greatest size of a completion: the maximum number of parts, each with a checksum. */
const COMPLETE_BYTES = 2 * 1024 * 1024;
const SOURCE_RANGE = /^bytes=\d{1,18}-\d{1,18}$/;
const ETAG = /^"?([\x21\x23-\x7e]{1,128})"?$/;

/** Operations on objects in parts. */
export function uploadHandlers(store: ObjectStore, admission: Admission): Handlers<Name> {
  return {
    ...partHandlers(store, admission),
    CreateMultipartUpload: async (admitted) => {
      const ref = { bucket: bucketOf(admitted), key: keyOf(admitted) };
      const id = await store.createUpload(admitted.call, ref, ownHeaders(admitted.headers));
      answer(admitted, 'InitiateMultipartUploadResult', [
        ['Bucket', ref.bucket],
        ['Key', ref.key],
        ['UploadId', id],
      ]);
    },
    CompleteMultipartUpload: async (admitted) => {
      const at = uploadOf(admitted);
      const parts = partsOf(await document(admission, ofDocument(admitted), COMPLETE, COMPLETE_BYTES));
      const { 'content-md5': _checked, ...conditions } = writeConditions(admitted.headers);
      const headers = { ...conditions, ...sizeOf(admitted) };
      const work = store.completeUpload(admitted.call, at, parts, headers).catch(judgeSize);
      const told = work.then(({ key, etag }) => [
        ['Location', `/${at.bucket}/${key}`] as const,
        ['Bucket', at.bucket] as const,
        ['Key', key] as const,
        ['ETag', etag] as const,
      ]);
      await answerAlive(admission, admitted, 'CompleteMultipartUploadResult', told);
    },
    AbortMultipartUpload: async (admitted) => {
      await store.abortUpload(admitted.call, uploadOf(admitted));
      writeHead(admitted.exchange, 204, {}).end();
    },
  };
}

function partHandlers(
  store: ObjectStore,
  admission: Admission,
): Handlers<'UploadPart' | 'UploadPartCopy' | 'ListParts'> {
  return {
    UploadPart: async (admitted) => {
      const body = bodyOf(admitted);
      const at = uploadPartOf(admitted);
      admission.transfer(admitted.exchange);
      const { etag } = await store.putPart(admitted.call, at, body, {});
      writeHead(admitted.exchange, 200, { ...body.checksums, etag, 'content-length': 0 }).end();
    },
    UploadPartCopy: async (admitted) => {
      const range = admitted.headers.get('x-amz-copy-source-range');
      if (range !== undefined && !SOURCE_RANGE.test(range))
        throw new ServiceError('invalid_request', 'range of the source');
      const headers = range === undefined ? {} : { 'x-amz-copy-source-range': range };
      const source = sourceOf(admitted.headers);
      const work = store.copyPart(admitted.call, uploadPartOf(admitted), source, headers);
      await answerAlive(admission, admitted, 'CopyPartResult', work.then(copied));
    },
    ListParts: async (admitted) => {
      const after = numberOf(admitted.query.get('part-number-marker'), 0, 0, 10_000);
      const limit = Math.min(MAX_KEYS, numberOf(admitted.query.get('max-parts'), MAX_KEYS, 0, 999_999_999));
      const at = uploadOf(admitted);
      // At least one part is requested, since servers differ about zero, and the upload's existence must be checked in
      // any case.
      const page = await store.listParts(admitted.call, at, { after, limit: Math.max(1, limit) });
      const { key, parts, next } = limit === 0 ? { ...page, parts: [], next: undefined } : page;
      answer(admitted, 'ListPartsResult', [
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
  };
}

/** The request with the checksum removed: a completion's checksum is that of the object and not of its document. */
function ofDocument(admitted: Admitted): Admitted {
  const headers = [...admitted.headers].filter(([name]) => !name.startsWith('x-amz-checksum-'));
  return { ...admitted, headers: new Map(headers) };
}

function sizeOf({ headers }: Admitted): Readonly<Record<string, string>> {
  const size = headers.get(OBJECT_SIZE);
  if (size === undefined) return {};
  if (!/^\d{1,15}$/.test(size)) throw new ServiceError('invalid_request', 'size of the object');
  return { [OBJECT_SIZE]: size };
}

/** Only the size can be the reason for such a refusal. */
function judgeSize(cause: unknown): never {
  if (cause instanceof S3Error && cause.status === 400 && cause.code === 'InvalidRequest')
    throw new S3Refusal('invalid_request', { status: 400, code: 'InvalidRequest' }, 'size of the object');
  throw cause;
}

function uploadOf(admitted: Admitted): {
  readonly bucket: Bucket;
  readonly id: string;
  readonly key: ObjectKey;
} {
  return { bucket: bucketOf(admitted), id: admitted.query.get('uploadId') ?? '', key: keyOf(admitted) };
}

function uploadPartOf(admitted: Admitted) {
  return { ...uploadOf(admitted), number: numberOf(admitted.query.get('partNumber'), 0, 1, 10_000) };
}

function partsOf(node: XmlNode): readonly { readonly number: number; readonly etag: string }[] {
  const parts = childrenOf(node, 'Part').map((child) => ({
    number: numberOf(textOf(child, 'PartNumber'), 0, 1, 10_000),
    etag: `"${ETAG.exec(textOf(child, 'ETag') ?? '')?.[1] ?? ''}"`,
  }));
  if (parts.length < 1) throw malformed();
  if (parts.some(({ number }, i) => i > 0 && number <= (parts[i - 1]?.number ?? 0)))
    throw new S3Refusal('invalid_request', { status: 400, code: 'InvalidPartOrder' }, 'order of parts');
  return parts;
}
