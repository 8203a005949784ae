import {
  copied,
  fields,
  inHalves,
  listing,
  nextOf,
  noNextToken,
  sizeOf,
  stored,
  withSource,
} from './documents.ts';
import { S3Error } from './errors.ts';
import { PATIENCE, type Patience } from './relay.ts';
import type { Ask, Transport } from './transport.ts';
import type { S3Client } from './types.ts';
import { childrenOf, textOf, xmlDocument } from './xml.ts';

type Operations =
  | 'createUpload'
  | 'putPart'
  | 'copyPart'
  | 'listParts'
  | 'completeUpload'
  | 'abortUpload'
  | 'listUploads';

/** For requests that go on without their caller: a server that sends a byte a minute must not hold their slots for ever. */
const BRIEF: Patience = { ...PATIENCE, together: true };

/** Objects that are uploaded in parts. */
export function createMultipartRequests(
  transport: Transport,
  source: (key: string) => string,
  patience: Patience,
): Pick<S3Client, Operations> {
  return {
    ...multipartLists(transport),
    createUpload: async (key, { headers = {}, signal } = {}) => {
      const about = { query: { uploads: '' }, headers, stores: true } as const;
      const ask: Ask = { method: 'POST', key, ...about, signal, patience: BRIEF };
      const id = textOf(await fields(transport, ask, 'InitiateMultipartUploadResult'), 'UploadId');
      if (id === undefined || id === '') throw new S3Error('answered', 200, 'NoUploadId');
      return id;
    },
    putPart: async (key, upload, number, body, { headers = {}, signal } = {}) => {
      const query = { partNumber: String(number), uploadId: upload };
      const answer = await transport.small({ method: 'PUT', key, query, headers, body, signal });
      return { etag: stored(answer.headers['etag']) };
    },
    copyPart: async (from, to, { headers = {}, signal } = {}) => {
      const query = { partNumber: String(to.number), uploadId: to.upload };
      const all = withSource(headers, source(from));
      return copied(
        await fields(
          transport,
          { method: 'PUT', key: to.key, query, headers: all, signal, patience },
          'CopyPartResult',
        ),
      );
    },
    completeUpload: async (key, upload, parts, { headers = {}, signal } = {}) => {
      const listed = parts.map(
        ({ number, etag }) =>
          [
            'Part',
            [
              ['PartNumber', number],
              ['ETag', etag],
            ],
          ] as const,
      );
      const body = Buffer.from(xmlDocument('CompleteMultipartUpload', listed));
      const ask: Ask = {
        method: 'POST',
        key,
        query: { uploadId: upload },
        headers: { ...headers, 'content-type': 'application/xml' },
        body,
        signal,
        patience,
      };
      return { etag: stored(textOf(await fields(transport, ask, 'CompleteMultipartUploadResult'), 'ETag')) };
    },
    abortUpload: async (key, upload, { signal } = {}) => {
      await transport.small({ method: 'DELETE', key, query: { uploadId: upload }, signal, patience: BRIEF });
    },
  };
}

function multipartLists(transport: Transport): Pick<S3Client, 'listParts' | 'listUploads'> {
  return {
    listParts: async (key, upload, { after, limit }, { signal, inTurn } = {}) => {
      const query = { uploadId: upload, 'part-number-marker': String(after), 'max-parts': String(limit) };
      const shape = { root: 'ListPartsResult', items: ['Part'], most: limit };
      const answer = await listing(transport, { method: 'GET', key, query, signal }, shape, inTurn);
      const parts = childrenOf(answer, 'Part').map((node) => ({
        number: Number(textOf(node, 'PartNumber')),
        etag: textOf(node, 'ETag') ?? '',
        size: sizeOf(node),
        modified: textOf(node, 'LastModified') ?? '',
      }));
      const next = nextOf(answer, 'NextPartNumberMarker');
      if (next === undefined) return { parts, next };
      if (!/^[0-9]{1,5}$/.test(next)) throw noNextToken();
      return { parts, next: Number(next) };
    },
    listUploads: ({ prefix, after, limit: most }, { signal, inTurn } = {}) =>
      inHalves(most, async (limit) => {
        const query = {
          uploads: '',
          prefix,
          'max-uploads': String(limit),
          ...(after === undefined ? {} : { 'key-marker': after }),
        };
        const shape = {
          root: 'ListMultipartUploadsResult',
          items: ['Upload', 'CommonPrefixes'],
          most: limit,
        };
        const answer = await listing(transport, { method: 'GET', query, signal }, shape, inTurn);
        const uploads = childrenOf(answer, 'Upload').map((node) => ({
          key: textOf(node, 'Key') ?? '',
          id: textOf(node, 'UploadId') ?? '',
          initiated: new Date(textOf(node, 'Initiated') ?? ''),
        }));
        return { uploads, next: nextOf(answer, 'NextKeyMarker') };
      }),
  };
}
