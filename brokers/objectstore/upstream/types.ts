import type { Readable } from 'node:stream';
import type { Head, Passing, SinkFor } from './relay.ts';
import type { InTurn } from './sinks.ts';

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
  /** The turns in which the answer is read. */
  readonly inTurn?: InTurn | undefined;
}

interface ReadOptions extends Options {
  /** One of the parts that the object was uploaded in. */
  readonly part?: number | undefined;
  /** How a long body is passed on. */
  readonly passing?: Passing | undefined;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  /** With its quotation marks. */
  readonly etag: string;
  /** ISO 8601. */
  readonly modified: string;
}

export interface Page {
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
  /** Whether the bucket keeps what is deleted; a server that knows no versions keeps nothing. */
  isVersioned(options?: Options): Promise<boolean>;
  put(key: string, body: Buffer | Body, options?: Options): Promise<{ readonly etag: string }>;
  get(key: string, options: ReadOptions, sinkFor: SinkFor): Promise<Head>;
  /** A small object as a whole; at most `limit` bytes. */
  read(key: string, limit: number, options?: Options): Promise<Head & { readonly body: Buffer }>;
  head(key: string, options?: ReadOptions): Promise<Head>;
  /** Succeeds for what is not there, as S3 does. */
  delete(key: string, options?: Options): Promise<void>;
  /** Deletes at most 1,000 keys, and returns those that could not be deleted. */
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
  /** Uploads of keys behind `after`; where a page ends among several of one key, the rest of them is left out. */
  listUploads(
    page: { readonly prefix: string; readonly after?: string | undefined; readonly limit: number },
    options?: Options,
  ): Promise<{ readonly uploads: readonly OpenUploadUpstream[]; readonly next: string | undefined }>;
}
