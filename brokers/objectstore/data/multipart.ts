import { ServiceError } from '@space/broker-kit';
import type { S3Client } from '../upstream/client.ts';
import { logicalKey, physicalKey } from './address.ts';
import { isMarker } from './keys.ts';
import type { Hold } from './quota/allowance.ts';
import type { Call, ObjectStore, UploadAt } from './store.ts';
import { abortUpload, type OpenUpload, type Uploads } from './uploads.ts';
import { physicalOf as physical, sendable, type Writer } from './writer.ts';

const MAX_PART = 10_000;

type Multipart = Pick<
  ObjectStore,
  'createUpload' | 'putPart' | 'copyPart' | 'listParts' | 'completeUpload' | 'abortUpload' | 'listUploads'
>;

/** Told apart because S3 has a code of its own for it. */
export class NoSuchUpload extends ServiceError {
  constructor() {
    super('not_found', 'no such upload');
  }
}

/** Objects that come in parts. An upload is known by our id alone, and its parts count until it is over. */
export function createMultipart(client: S3Client, uploads: Uploads, writer: Writer): Multipart {
  async function uploadAt({ tenant }: Call, { bucket, id, key }: UploadAt): Promise<OpenUpload> {
    const room = tenant.room[bucket];
    const upload = await uploads.find(room, id);
    if (upload === undefined || (key !== undefined && upload.key !== physicalKey(tenant.room, bucket, key)))
      throw new NoSuchUpload();
    return upload;
  }

  async function partStored(upload: OpenUpload, bytes: number, hold: Hold): Promise<void> {
    // Counted twice for a moment, rather than not at all.
    await uploads.addBytes(upload.id, upload.place, bytes);
    await hold.move();
  }

  return {
    createUpload: async (call, place, headers) => {
      const { tenant, signal } = call;
      if (isMarker(place.key)) throw new ServiceError('invalid_request', 'a directory marker has no parts');
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
      return writer.write(
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
      if (isMarker(from.key)) throw new ServiceError('invalid_request', 'a directory marker is no part');
      const upload = await uploadAt(call, at);
      const source = await writer.sourceOf(call, from);
      const size = rangeLength(headers['x-amz-copy-source-range'], source.size);
      const to = { key: upload.key, upload: upload.upstreamId, number: at.number };
      const all = { ...headers, ...source.headers };
      return writer.write(
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
