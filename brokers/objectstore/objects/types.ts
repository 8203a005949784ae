import type { Readable } from 'node:stream';
import type { SharedSlots, TokenDigest } from '@space/broker-kit';
import type { Head, Passing, SinkFor } from '../upstream/relay.ts';
import type { InTurn } from '../upstream/sinks.ts';
import type { Headers, ListedObject, Part } from '../upstream/types.ts';
import type { Bucket, BucketPrefixes, KeyPrefix, ObjectKey, ObjectRef } from './object-key.ts';

/** An authenticated Assistant, and what belongs to it. */
export interface Tenant {
  readonly capsule: string;
  readonly app: string;
  /** The prefix of all objects of the Capsule, under which quota and requests are counted. */
  readonly capsulePrefix: string;
  /** The prefixes of its buckets. */
  readonly prefixes: BucketPrefixes;
  readonly quotaBytes: number;
  /** The digest of its principal. */
  readonly digest: TokenDigest;
}

/** The caller of a request, and its deadline. */
export interface ObjectCall {
  readonly tenant: Tenant;
  readonly signal: AbortSignal;
  /** The text in the grant's header, not yet verified. */
  readonly grant?: string | undefined;
  /** Runs work for documents of this caller in its turn. */
  readonly inTurn: InTurn;
  /** Passes long bodies on, from and to this caller. */
  readonly passing: Passing;
  /** Called when the objects are not in the Space's bucket, to return the slot for it. */
  readonly isElsewhere?: () => void;
  /** Called with slots for Capsules' own buckets of which it holds one until the returned function is called. */
  readonly holds?: (slots: SharedSlots) => () => void;
}

/** What is read: an object, or one of the parts that it was uploaded in. */
export interface Read extends ObjectRef {
  readonly part?: number;
}

export interface CopySource extends ObjectRef {
  /** Conditions (`if-match` …) on the copied object. */
  readonly conditions?: Headers;
}

export interface Copied {
  readonly etag: string;
  readonly modified: string;
  readonly size: number;
}

export interface ObjectPage {
  /** Keys as the tenant writes them. */
  readonly objects: readonly ListedObject[];
  readonly prefixes: readonly string[];
  readonly next: string | undefined;
}

export interface IncomingBody {
  readonly stream: Readable;
  readonly length: number;
}

export const MAX_KEYS = 1_000;

export interface ObjectStore {
  put(
    call: ObjectCall,
    ref: ObjectRef,
    body: IncomingBody,
    headers: Headers,
  ): Promise<{ readonly etag: string }>;
  get(call: ObjectCall, ref: Read, conditions: Headers, sinkFor: SinkFor): Promise<Head>;
  head(call: ObjectCall, ref: Read, conditions: Headers): Promise<Head>;
  /** With an `etag`, only the object that has it. */
  delete(call: ObjectCall, ref: ObjectRef, etag?: string): Promise<void>;
  /** Returns the keys that could not be deleted. */
  deleteMany(call: ObjectCall, bucket: Bucket, keys: readonly ObjectKey[]): Promise<ReadonlySet<string>>;
  list(
    call: ObjectCall,
    bucket: Bucket,
    query: {
      readonly prefix: KeyPrefix;
      readonly delimiter?: string | undefined;
      readonly token?: string | undefined;
      readonly after?: KeyPrefix | undefined;
      readonly limit: number;
    },
  ): Promise<ObjectPage>;
  copy(call: ObjectCall, from: CopySource, to: ObjectRef, headers: Headers): Promise<Copied>;
  createUpload(call: ObjectCall, ref: ObjectRef, headers: Headers): Promise<string>;
  putPart(
    call: ObjectCall,
    at: UploadPart,
    body: IncomingBody,
    headers: Headers,
  ): Promise<{ readonly etag: string }>;
  copyPart(
    call: ObjectCall,
    at: UploadPart,
    from: CopySource,
    headers: Headers,
  ): Promise<{ readonly etag: string; readonly modified: string }>;
  listParts(
    call: ObjectCall,
    at: UploadAt,
    page: { readonly after: number; readonly limit: number },
  ): Promise<{ readonly key: string; readonly parts: readonly Part[]; readonly next: number | undefined }>;
  completeUpload(
    call: ObjectCall,
    at: UploadAt,
    parts: readonly { readonly number: number; readonly etag: string }[],
    headers: Headers,
  ): Promise<{ readonly key: string; readonly etag: string }>;
  abortUpload(call: ObjectCall, at: UploadAt): Promise<void>;
  listUploads(
    call: ObjectCall,
    bucket: Bucket,
    page: {
      readonly prefix: KeyPrefix;
      readonly afterKey: string;
      readonly afterId: string;
      readonly limit: number;
    },
  ): Promise<readonly { readonly key: string; readonly id: string; readonly createdAt: Date }[]>;
}

/** An upload by the broker's id. A `key`, which some protocols repeat, must be the upload's own. */
export interface UploadAt {
  readonly bucket: Bucket;
  readonly id: string;
  readonly key?: ObjectKey;
}

interface UploadPart extends UploadAt {
  readonly number: number;
}
