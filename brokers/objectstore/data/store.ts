import type { Readable, Writable } from 'node:stream';
import { ServiceError } from '@space/broker-kit';
import type { Headers, ListedObject, Part, S3Client } from '../upstream/client.ts';
import { S3Error } from '../upstream/errors.ts';
import type { Head } from '../upstream/transport.ts';
import { type Bucket, logicalKey, type PhysicalKey, physicalKey, physicalPrefix } from './address.ts';
import type { KeyPrefix, ObjectKey } from './keys.ts';
import type { Hold, Quota } from './quota/allowance.ts';
import type { Tenant } from './tenants.ts';
import { abortUpload, type OpenUpload, type Uploads } from './uploads.ts';

/** Who asks, and until when. */
export interface Call {
  readonly tenant: Tenant;
  readonly signal: AbortSignal;
  /** The text that came as a grant; nobody has looked at it yet. */
  readonly grant?: string | undefined;
}

interface Place {
  readonly bucket: Bucket;
  readonly key: ObjectKey;
}

export interface CopySource extends Place {
  /** Conditions (`if-match` …) on the object that is copied. */
  readonly conditions?: Headers;
}

export interface ObjectPage {
  /** Keys as the tenant spells them. */
  readonly objects: readonly ListedObject[];
  readonly prefixes: readonly string[];
  readonly next: string | undefined;
}

export interface IncomingBody {
  readonly stream: Readable;
  readonly length: number;
}

/** The largest body of one request. */
export const MAX_PUT_BYTES = 5 * 1024 ** 3;
export const MAX_KEYS = 1_000;
const MAX_PART = 10_000;

export interface ObjectStore {
  put(call: Call, place: Place, body: IncomingBody, headers: Headers): Promise<{ readonly etag: string }>;
  get(call: Call, place: Place, headers: Headers, into: (head: Head) => Writable): Promise<Head>;
  head(call: Call, place: Place, headers: Headers): Promise<Head>;
  /** With an `etag` only the object that has it. */
  delete(call: Call, place: Place, etag?: string): Promise<void>;
  /** Answers the keys that could not be deleted. */
  deleteMany(call: Call, bucket: Bucket, keys: readonly ObjectKey[]): Promise<ReadonlySet<string>>;
  list(
    call: Call,
    bucket: Bucket,
    query: {
      readonly prefix: KeyPrefix;
      readonly delimiter?: string | undefined;
      readonly token?: string | undefined;
      readonly after?: KeyPrefix | undefined;
      readonly limit: number;
    },
  ): Promise<ObjectPage>;
  copy(
    call: Call,
    from: CopySource,
    to: Place,
    headers: Headers,
  ): Promise<{ readonly etag: string; readonly modified: string; readonly size: number }>;
  createUpload(call: Call, place: Place, headers: Headers): Promise<string>;
  putPart(
    call: Call,
    at: UploadPart,
    body: IncomingBody,
    headers: Headers,
  ): Promise<{ readonly etag: string }>;
  copyPart(
    call: Call,
    at: UploadPart,
    from: CopySource,
    headers: Headers,
  ): Promise<{ readonly etag: string; readonly modified: string }>;
  listParts(
    call: Call,
    at: UploadAt,
    page: { readonly after: number; readonly limit: number },
  ): Promise<{ readonly key: string; readonly parts: readonly Part[]; readonly next: number | undefined }>;
  completeUpload(
    call: Call,
    at: UploadAt,
    parts: readonly { readonly number: number; readonly etag: string }[],
    headers: Headers,
  ): Promise<{ readonly key: string; readonly etag: string }>;
  abortUpload(call: Call, at: UploadAt): Promise<void>;
  listUploads(
    call: Call,
    bucket: Bucket,
    page: {
      readonly prefix: KeyPrefix;
      readonly afterKey: string;
      readonly afterId: string;
      readonly limit: number;
    },
  ): Promise<readonly { readonly key: string; readonly id: string; readonly createdAt: Date }[]>;
}

/** An upload by our id; a `key`, where the protocol repeats it, must be the one that the upload was made for. */
interface UploadAt {
  readonly bucket: Bucket;
  readonly id: string;
  readonly key?: ObjectKey;
}

interface UploadPart extends UploadAt {
  readonly number: number;
}

/** The operations of an Assistant on its two buckets. Whatever is asked for, it is asked within the tenant's room. */
export function createObjectStore(
  client: S3Client,
  quota: Pick<Quota, 'reserve'>,
  uploads: Uploads,
): ObjectStore {
  const physical = ({ tenant }: Call, { bucket, key }: Place): PhysicalKey =>
    physicalKey(tenant.room, bucket, key);

  async function uploadAt({ tenant }: Call, { bucket, id, key }: UploadAt): Promise<OpenUpload> {
    const room = tenant.room[bucket];
    const upload = await uploads.find(room, id);
    if (upload === undefined || (key !== undefined && upload.key !== physicalKey(tenant.room, bucket, key)))
      throw new ServiceError('not_found', 'no such upload');
    return upload;
  }

  /** Reserves before the first byte, and settles by what can have been stored. */
  async function writing<T>(
    { tenant }: Call,
    bytes: number,
    write: () => Promise<T>,
    sent: () => boolean,
    stored: (hold: Hold) => Promise<void> | void = (hold) => hold.settle(),
  ): Promise<T> {
    if (bytes > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
    const hold = await quota.reserve(tenant, bytes);
    try {
      const result = await write();
      await stored(hold);
      return result;
    } catch (error) {
      // Without an answer to a body that went out whole, it may be stored.
      const refused = error instanceof S3Error && error.kind === 'answered' && error.status >= 400;
      if (refused || !sent()) hold.release();
      else hold.settle();
      throw error;
    }
  }

  async function partStored(upload: OpenUpload, bytes: number, hold: Hold): Promise<void> {
    // Counted twice for a moment, rather than not at all.
    await uploads.addBytes(upload.id, upload.place, bytes);
    await hold.move();
  }

  /** What may be copied: the object as it is now, and no other that takes its name in between. */
  async function sourceOf(
    call: Call,
    from: CopySource,
  ): Promise<{ key: PhysicalKey; size: number; headers: Headers }> {
    const key = physical(call, from);
    const head = await client.head(key, { headers: from.conditions ?? {}, signal: call.signal });
    if (head.status === 304) throw new ServiceError('precondition_failed', 'condition on the source');
    const etag = head.headers['etag'];
    return {
      key,
      size: Number(head.headers['content-length'] ?? 0),
      headers: etag === undefined ? {} : { 'x-amz-copy-source-if-match': etag },
    };
  }

  return {
    put: (call, place, body, headers) =>
      writing(
        call,
        body.length,
        async () => client.put(physical(call, place), await sendable(body), { headers, signal: call.signal }),
        () => body.stream.readableEnded,
      ),
    get: (call, place, headers, into) =>
      client.get(physical(call, place), { headers, signal: call.signal }, into),
    head: (call, place, headers) => client.head(physical(call, place), { headers, signal: call.signal }),
    delete: async (call, place, etag) => {
      const key = physical(call, place);
      const { signal } = call;
      if (etag === undefined) return client.delete(key, { signal });
      // Not every S3 server knows conditional deletes; one that ignores the condition must not delete another object.
      await client.head(key, { headers: { 'if-match': etag }, signal });
      await client.delete(key, { headers: { 'if-match': etag }, signal });
    },
    deleteMany: async (call, bucket, keys) => {
      const { room } = call.tenant;
      const failed = await client.deleteMany(
        keys.map((key) => physicalKey(room, bucket, key)),
        { signal: call.signal },
      );
      return new Set(failed.map(({ key }) => logicalKey(room, bucket, key) ?? ''));
    },
    list: async (call, bucket, { prefix, delimiter, token, after, limit }) => {
      const { room } = call.tenant;
      const page = await client.list(
        {
          prefix: physicalPrefix(room, bucket, prefix),
          delimiter,
          token,
          after: after === undefined ? undefined : physicalPrefix(room, bucket, after),
          limit,
        },
        { signal: call.signal },
      );
      const own = (key: string) => logicalKey(room, bucket, key) ?? [];
      return {
        objects: page.objects.flatMap((object) => {
          const key = logicalKey(room, bucket, object.key);
          return key === undefined ? [] : [{ ...object, key }];
        }),
        prefixes: page.prefixes.flatMap(own),
        next: page.next,
      };
    },
    copy: async (call, from, to, headers) => {
      const source = await sourceOf(call, from);
      const all = { ...headers, ...source.headers };
      const { signal } = call;
      const copied = await writing(
        call,
        source.size,
        () => client.copy(source.key, physical(call, to), { headers: all, signal }),
        () => true,
      );
      return { ...copied, size: source.size };
    },
    createUpload: async (call, place, headers) => {
      const { tenant, signal } = call;
      const key = physical(call, place);
      const upstreamId = await client.createUpload(key, { headers, signal });
      const room = tenant.room[place.bucket];
      try {
        return await uploads.open({ place: tenant.place, room, key, upstreamId });
      } catch (error) {
        // Nobody will ever know its id.
        await client.abortUpload(key, upstreamId).catch(() => undefined);
        throw error;
      }
    },
    putPart: async (call, at, body, headers) => {
      checkPart(at.number);
      const upload = await uploadAt(call, at);
      const { signal } = call;
      return writing(
        call,
        body.length,
        async () =>
          client.putPart(upload.key, upload.upstreamId, at.number, await sendable(body), { headers, signal }),
        () => body.stream.readableEnded,
        (hold) => partStored(upload, body.length, hold),
      );
    },
    copyPart: async (call, at, from, headers) => {
      checkPart(at.number);
      const upload = await uploadAt(call, at);
      const source = await sourceOf(call, from);
      const size = rangeLength(headers['x-amz-copy-source-range'], source.size);
      const to = { key: upload.key, upload: upload.upstreamId, number: at.number };
      const all = { ...headers, ...source.headers };
      return writing(
        call,
        size,
        () => client.copyPart(source.key, to, { headers: all, signal: call.signal }),
        () => true,
        (hold) => partStored(upload, size, hold),
      );
    },
    listParts: async (call, at, page) => {
      const upload = await uploadAt(call, at);
      const key = logicalKey(call.tenant.room, at.bucket, upload.key) ?? '';
      return {
        key,
        ...(await client.listParts(upload.key, upload.upstreamId, page, { signal: call.signal })),
      };
    },
    completeUpload: async (call, at, parts, headers) => {
      const upload = await uploadAt(call, at);
      // Not the caller's signal: once the upstream begins, who hangs up must not leave the row behind.
      const { etag } = await client.completeUpload(upload.key, upload.upstreamId, parts, { headers });
      await uploads.close(upload, false);
      return { key: logicalKey(call.tenant.room, at.bucket, upload.key) ?? '', etag };
    },
    abortUpload: async (call, at) => abortUpload(client, uploads, await uploadAt(call, at)),
    listUploads: async ({ tenant }, bucket, { prefix, afterKey, ...page }) => {
      const room = tenant.room[bucket];
      const rows = await uploads.list(room, {
        ...page,
        prefix: `${room}${prefix}`,
        afterKey: `${room}${afterKey}`,
      });
      return rows.map(({ key, id, createdAt }) => ({ key: key.slice(room.length), id, createdAt }));
    },
  };
}

/** An empty body is read to its end first: what inspects it may still refuse it. */
async function sendable(body: IncomingBody): Promise<Buffer | IncomingBody> {
  if (body.length > 0) return body;
  for await (const _chunk of body.stream) throw new ServiceError('invalid_request', 'longer than announced');
  return Buffer.alloc(0);
}

function checkPart(number: number): void {
  if (!Number.isInteger(number) || number < 1 || number > MAX_PART)
    throw new ServiceError('invalid_request', 'part number');
}

function rangeLength(range: string | undefined, size: number): number {
  if (range === undefined) return size;
  const [, first = '', last = ''] = /^bytes=(\d{1,18})-(\d{1,18})$/.exec(range) ?? [];
  const length = Number(last) - Number(first) + 1;
  if (first === '' || length < 1 || Number(last) >= size)
    throw new ServiceError('range_not_satisfiable', 'range of the source');
  return length;
}
