import { createHash } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { encodePath } from './encode.ts';
import { S3Error } from './errors.ts';
import { type Head, PATIENCE } from './relay.ts';
import { ANSWER_TOO_LARGE, atOnce, type InTurn } from './sinks.ts';
import type { Target } from './target.ts';
import { type Ask, createTransport } from './transport.ts';
import { childrenOf, textOf, type XmlNode, xmlDocument } from './xml.ts';

interface Body {
  readonly stream: Readable;
  /** Bytes, exactly: fewer or more break the request, and nothing is stored. */
  readonly length: number;
}

/** Lower-case names; what they may be is the caller's business. */
export type Headers = Readonly<Record<string, string>>;

interface Options {
  readonly headers?: Headers;
  readonly signal?: AbortSignal | undefined;
  /** Whose turns an answer is read in. */
  readonly inTurn?: InTurn | undefined;
}

interface ReadOptions extends Options {
  /** One of the parts that the object was uploaded in. */
  readonly part?: number | undefined;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  /** With its quotation marks. */
  readonly etag: string;
  /** ISO 8601. */
  readonly modified: string;
}

interface Page {
  readonly objects: readonly ListedObject[];
  readonly prefixes: readonly string[];
  /** The upstream's own token for the next page. */
  readonly next: string | undefined;
}

export interface Part {
  readonly number: number;
  readonly etag: string;
  readonly size: number;
  readonly modified: string;
}

/** An upload that is not over. */
interface OpenUploadUpstream {
  readonly key: string;
  readonly id: string;
  /** When it was begun, as the server says it; servers that count from the last part say later. */
  readonly initiated: Date;
}

/** The operations on one bucket that the broker needs. Keys are physical. Every failure is an S3Error. */
export interface S3Client {
  /** Succeeds when the bucket is there and ours. */
  createBucket(options?: Options): Promise<void>;
  put(key: string, body: Buffer | Body, options?: Options): Promise<{ readonly etag: string }>;
  get(key: string, options: ReadOptions, into: (head: Head) => Writable): Promise<Head>;
  /** A small object as a whole; at most `limit` bytes. */
  read(key: string, limit: number, options?: Options): Promise<Head & { readonly body: Buffer }>;
  head(key: string, options?: ReadOptions): Promise<Head>;
  /** Succeeds for what is not there, as S3 does. */
  delete(key: string, options?: Options): Promise<void>;
  /** At most 1,000 keys. Answers those that could not be deleted. */
  deleteMany(keys: readonly string[], options?: Options): Promise<readonly { key: string; code: string }[]>;
  list(
    query: {
      readonly prefix: string;
      readonly delimiter?: string | undefined;
      readonly token?: string | undefined;
      readonly after?: string | undefined;
      readonly limit: number;
    },
    options?: Options,
  ): Promise<Page>;
  copy(
    from: string,
    to: string,
    options?: Options,
  ): Promise<{ readonly etag: string; readonly modified: string }>;
  createUpload(key: string, options?: Options): Promise<string>;
  putPart(
    key: string,
    upload: string,
    number: number,
    body: Buffer | Body,
    options?: Options,
  ): Promise<{ readonly etag: string }>;
  copyPart(
    from: string,
    to: { readonly key: string; readonly upload: string; readonly number: number },
    options?: Options,
  ): Promise<{ readonly etag: string; readonly modified: string }>;
  listParts(
    key: string,
    upload: string,
    page: { readonly after: number; readonly limit: number },
    options?: Options,
  ): Promise<{ readonly parts: readonly Part[]; readonly next: number | undefined }>;
  completeUpload(
    key: string,
    upload: string,
    parts: readonly { readonly number: number; readonly etag: string }[],
    options?: Options,
  ): Promise<{ readonly etag: string }>;
  abortUpload(key: string, upload: string, options?: Options): Promise<void>;
  /** Those of keys behind `after`; where a page ends among several of one key, the rest of them is left out. */
  listUploads(
    page: { readonly prefix: string; readonly after?: string | undefined; readonly limit: number },
    options?: Options,
  ): Promise<{ readonly uploads: readonly OpenUploadUpstream[]; readonly next: string | undefined }>;
}

/** How long a server may be at a copy or a completion: it may move all bytes of an object meanwhile. */
const LONG_MS = 600_000;
/** Of a document without items. */
const FIELDS_LIMIT = 64 * 1024;
/** Of an item in a document: a key of 1,024 bytes, each of them escaped, and what else is told of it. */
const ITEM_LIMIT = 7 * 1024;
/** Of a whole list. A page that is longer is asked for again in halves; at 1 KiB an item it never is. */
const LISTING_LIMIT = 2 * 1024 * 1024;

/** Whether a segment is longer than S3 servers take that keep objects as files. */
function isLong(key: string): boolean {
  return key.split('/').some((segment) => Buffer.byteLength(segment) > 255);
}

export function createS3Client(
  target: Target,
  dispatcher: Dispatcher,
  now: () => Date = () => new Date(),
  longMs = LONG_MS,
): S3Client {
  const patience = { ...PATIENCE, headMs: longMs, pieceMs: longMs };
  const transport = createTransport(target, dispatcher, now);
  const source = (key: string) => `/${target.bucket}/${encodePath(key)}`;

  /** A document of a few fields. */
  const fields = (ask: Ask, root: string) =>
    transport.document(ask, {
      shape: { root, items: [], most: 0 },
      limit: FIELDS_LIMIT,
      inTurn: atOnce,
    });

  /** One that lists: no more items than were asked for, and no more bytes than these can have. */
  const listing = (
    ask: Ask,
    shape: { readonly root: string; readonly items: readonly string[]; readonly most: number },
    inTurn: InTurn = atOnce,
  ) =>
    transport.document(ask, {
      shape,
      limit: Math.min(LISTING_LIMIT, FIELDS_LIMIT + shape.most * ITEM_LIMIT),
      inTurn,
    });

  return {
    createBucket: async ({ headers = {}, signal } = {}) => {
      try {
        await transport.small({ method: 'PUT', headers, signal });
      } catch (error) {
        if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
      }
    },
    put: async (key, body, { headers = {}, signal } = {}) => {
      const answer = await transport.small({ method: 'PUT', key, headers, body, signal });
      return { etag: stored(answer.headers['etag']) };
    },
    get: (key, { headers = {}, part, signal }, into) =>
      transport.stream({ method: 'GET', key, ...partOf(part), headers, signal }, (head) => {
        checkDownload(head, headers['range']);
        return into(head);
      }),
    read: (key, limit, { headers = {}, signal } = {}) =>
      transport.small({ method: 'GET', key, headers, signal }, limit),
    head: async (key, { headers = {}, part, signal } = {}) => {
      try {
        return await transport.small({ method: 'HEAD', key, ...partOf(part), headers, signal });
      } catch (error) {
        // An answer to HEAD has no body to say why.
        if (error instanceof S3Error && error.status === 400 && isLong(key))
          throw new S3Error('answered', 400, 'KeyTooLongError', { cause: error });
        throw error;
      }
    },
    delete: async (key, { headers = {}, signal } = {}) => {
      await transport.small({ method: 'DELETE', key, headers, signal });
    },
    deleteMany: async (keys, { signal, inTurn } = {}) => {
      const objects = keys.map((key) => ['Object', [['Key', key]]] as const);
      const body = Buffer.from(xmlDocument('Delete', [...objects, ['Quiet', true]]));
      const headers = {
        'content-type': 'application/xml',
        'content-md5': createHash('md5').update(body).digest('base64'),
      };
      // What was deleted is not to be told, and some tell it.
      const items = { items: ['Error', 'Deleted'], most: keys.length };
      const answer = await listing(
        { method: 'POST', query: { delete: '' }, headers, body, signal },
        { root: 'DeleteResult', ...items },
        inTurn,
      );
      return childrenOf(answer, 'Error').map((node) => ({
        key: textOf(node, 'Key') ?? '',
        code: textOf(node, 'Code') ?? 'Unknown',
      }));
    },
    list: (query, { signal, inTurn } = {}) => {
      const { prefix, delimiter, token, after } = query;
      return inHalves(query.limit, async (limit) => {
        const asked = {
          'list-type': '2',
          'max-keys': String(limit),
          prefix,
          ...(delimiter === undefined ? {} : { delimiter }),
          ...(token === undefined ? {} : { 'continuation-token': token }),
          ...(after === undefined ? {} : { 'start-after': after }),
        };
        const shape = { root: 'ListBucketResult', items: ['Contents', 'CommonPrefixes'], most: limit };
        return pageOf(await listing({ method: 'GET', query: asked, signal }, shape, inTurn));
      });
    },
    copy: async (from, to, { headers = {}, signal } = {}) => {
      const all = { ...headers, 'x-amz-copy-source': source(from) };
      return copied(
        await fields({ method: 'PUT', key: to, headers: all, signal, patience }, 'CopyObjectResult'),
      );
    },
    createUpload: async (key, { headers = {}, signal } = {}) => {
      const ask: Ask = { method: 'POST', key, query: { uploads: '' }, headers, signal };
      const id = textOf(await fields(ask, 'InitiateMultipartUploadResult'), 'UploadId');
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
      const all = { ...headers, 'x-amz-copy-source': source(from) };
      return copied(
        await fields({ method: 'PUT', key: to.key, query, headers: all, signal, patience }, 'CopyPartResult'),
      );
    },
    listParts: async (key, upload, { after, limit }, { signal, inTurn } = {}) => {
      const query = { uploadId: upload, 'part-number-marker': String(after), 'max-parts': String(limit) };
      const shape = { root: 'ListPartsResult', items: ['Part'], most: limit };
      const answer = await listing({ method: 'GET', key, query, signal }, shape, inTurn);
      const parts = childrenOf(answer, 'Part').map((node) => ({
        number: Number(textOf(node, 'PartNumber')),
        etag: textOf(node, 'ETag') ?? '',
        size: Number(textOf(node, 'Size') ?? 0),
        modified: textOf(node, 'LastModified') ?? '',
      }));
      const next = nextOf(answer, 'NextPartNumberMarker');
      if (next === undefined) return { parts, next };
      if (!/^[0-9]{1,5}$/.test(next)) throw noNextToken();
      return { parts, next: Number(next) };
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
      return { etag: stored(textOf(await fields(ask, 'CompleteMultipartUploadResult'), 'ETag')) };
    },
    abortUpload: async (key, upload, { signal } = {}) => {
      await transport.small({ method: 'DELETE', key, query: { uploadId: upload }, signal });
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
        const answer = await listing({ method: 'GET', query, signal }, shape, inTurn);
        const uploads = childrenOf(answer, 'Upload').map((node) => ({
          key: textOf(node, 'Key') ?? '',
          id: textOf(node, 'UploadId') ?? '',
          initiated: new Date(textOf(node, 'Initiated') ?? ''),
        }));
        return { uploads, next: nextOf(answer, 'NextKeyMarker') };
      }),
  };
}

function partOf(part: number | undefined): Pick<Ask, 'query'> {
  return part === undefined ? {} : { query: { partNumber: String(part) } };
}

/** A server that stored something says what. */
function stored(etag: string | undefined): string {
  if (etag === undefined || etag === '') throw new S3Error('answered', 200, 'NoETag');
  return etag;
}

/**
 * Is it the object, or the part of it that was asked for, with an end that cannot be missed? A body that ends with its
 * connection may have been cut, and the whole in the place of a part would be taken for the part.
 */
function checkDownload({ status, headers }: Head, range: string | undefined): void {
  if (status === 304) return;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] !== 'chunked')
    throw new S3Error('answered', 200, 'NoLength');
  if (range !== undefined && status !== 206 && isSatisfied(range) && headers['content-length'] !== '0')
    throw new S3Error('answered', 200, 'RangeIgnored');
}

/** One whose end is before its start means nothing, and is not heeded. */
function isSatisfied(range: string): boolean {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  return first === '' || last === '' || Number(last) >= Number(first);
}

/** Asks for fewer where so many are more than an answer may be. */
async function inHalves<T>(limit: number, ask: (limit: number) => Promise<T>): Promise<T> {
  try {
    return await ask(limit);
  } catch (error) {
    const fewer = Math.floor(limit / 2);
    // So few are never too much: whoever says more than that says it of something else.
    if (!(error instanceof S3Error && error.code === ANSWER_TOO_LARGE) || limit * ITEM_LIMIT < LISTING_LIMIT)
      throw error;
    return inHalves(fewer, ask);
  }
}

/** Where a list goes on; undefined where it ends. One that says that it goes on must say where. */
function nextOf(answer: XmlNode, name: string): string | undefined {
  if (textOf(answer, 'IsTruncated') !== 'true') return undefined;
  const next = textOf(answer, name);
  if (next === undefined || next === '') throw noNextToken();
  return next;
}

function noNextToken(): S3Error {
  return new S3Error('answered', 200, 'NoNextToken');
}

function pageOf(answer: XmlNode): Page {
  const objects = childrenOf(answer, 'Contents').map((node) => ({
    key: textOf(node, 'Key') ?? '',
    size: Number(textOf(node, 'Size') ?? 0),
    etag: textOf(node, 'ETag') ?? '',
    modified: textOf(node, 'LastModified') ?? '',
  }));
  const prefixes = childrenOf(answer, 'CommonPrefixes').map((node) => textOf(node, 'Prefix') ?? '');
  return { objects, prefixes, next: nextOf(answer, 'NextContinuationToken') };
}

function copied(answer: XmlNode): { readonly etag: string; readonly modified: string } {
  return { etag: stored(textOf(answer, 'ETag')), modified: textOf(answer, 'LastModified') ?? '' };
}
