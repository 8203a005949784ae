import type { Readable } from 'node:stream';
import type { Head, Passing, SinkFor } from './relay.ts';
import type { InTurn } from './sinks.ts';

interface Body {
  readonly stream: Readable;
  /** The exact number of bytes: with fewer or more the request fails, and nothing is stored. */
  readonly length: number;
}

/** Headers with names in lower case; the caller decides which are permitted. */
export type Headers = Readonly<Record<string, string>>;

interface Options {
  readonly headers?: Headers;
  readonly signal?: AbortSignal | undefined;
  /** Parses the answer in turns. */
  readonly inTurn?: InTurn | undefined;
}

interface ReadOptions extends Options {
  /** One of the parts that the object was uploaded in. */
  readonly part?: number | undefined;
  /** Passes a long body on in turns. */
  readonly passing?: Passing | undefined;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  /** Including its quotation marks. */
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

/** An upload that has not ended. */
interface OpenUploadUpstream {
  readonly key: string;
  readonly id: string;
  /** When the upload was begun according to the server; some servers report the time of its last part. */
  readonly initiated: Date;
}

/** The operations on one bucket that the broker needs. Keys are physical. Every failure is an S3Error. */
export interface S3Client {
  /** Creates the bucket; succeeds if it exists and is ours. */
  createBucket(options?: Options): Promise<void>;
  /** Whether the bucket keeps deleted objects; a server without versions does not. */
  isVersioned(options?: Options): Promise<boolean>;
  put(key: string, body: Buffer | Body, options?: Options): Promise<{ readonly etag: string }>;
  get(key: string, options: ReadOptions, sinkFor: SinkFor): Promise<Head>;
  /** A small object of at most `limit` bytes. */
  read(key: string, limit: number, options?: Options): Promise<Head & { readonly body: Buffer }>;
  head(key: string, options?: ReadOptions): Promise<Head>;
  /** Succeeds for an absent object, as in S3. */
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
  /** Uploads with keys after `after`. If a page ends among several uploads of a key, the rest of them is left out. */
  listUploads(
    page: { readonly prefix: string; readonly after?: string | undefined; readonly limit: number },
    options?: Options,
  ): Promise<{ readonly uploads: readonly OpenUploadUpstream[]; readonly next: string | undefined }>;
}
