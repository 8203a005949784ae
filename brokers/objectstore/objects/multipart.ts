import { ServiceError } from '@space/broker-kit';
import type { Reservation } from '../quota/capsule-block.ts';
import { entriesOf } from '../quota/charge.ts';
import type { Ending } from '../quota/credits.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import { abortUpload, clearLateParts } from './abandoned-uploads.ts';
import { Completions, NoSuchUpload } from './completions.ts';
import { isMarker, logicalKey, physicalOf as physical, physicalKey } from './object-key.ts';
import type { ObjectCall, ObjectStore, UploadAt } from './types.ts';
import type { OpenUpload, Uploads } from './uploads.ts';
import { doubtOf, sendable, type Writer } from './writer.ts';

const MAX_PART = 10_000;
const LATE_MS = 60_000;
/** What an upload without parts costs at the S3 server, in addition to its future object. */
const UPLOAD_ENTRIES = 2;

type Multipart = Pick<
  ObjectStore,
  'createUpload' | 'putPart' | 'copyPart' | 'listParts' | 'completeUpload' | 'abortUpload' | 'listUploads'
>;

export interface MultipartOptions {
  /** Absent if nothing is counted. */
  readonly ending?: Ending;
  /** Milliseconds after which a server has finished a part whose request was abandoned. */
  readonly lateMs?: number;
}

/** Objects in parts. Callers know an upload only by the broker's id, and its parts count until it has ended. */
export function createMultipart(
  client: S3Client,
  uploads: Uploads,
  writer: Writer,
  { ending, lateMs }: MultipartOptions,
): Multipart {
  const completions = new Completions(client, uploads, ending);

  return {
    createUpload: beginUploads(client, uploads, writer),
    ...partWrites(client, uploads, { writer, lateMs }),
    listParts: async (call, at, page) => {
      const upload = await uploadAt(uploads, call, at);
      const key = logicalKey(call.tenant.prefixes, at.bucket, upload.key) ?? '';
      return {
        key,
        ...(await client.listParts(upload.key, upload.upstreamId, page, {
          signal: call.signal,
          inTurn: call.inTurn,
        })),
      };
    },
    completeUpload: async (call, at, parts, headers) => {
      const upload = await uploadAt(uploads, call, at).catch((error: unknown) => {
        if (error instanceof NoSuchUpload && at.key !== undefined) return undefined;
        throw error;
      });
      if (upload === undefined) return completions.before(call, at, parts);
      return completions.end(call, at, upload, { parts, headers });
    },
    abortUpload: async (call, at) => abortUpload(client, uploads, await uploadAt(uploads, call, at)),
    listUploads: async ({ tenant, signal }, bucket, { prefix, afterKey, ...page }) => {
      const bucketPrefix = tenant.prefixes[bucket];
      const within = { ...page, prefix: `${bucketPrefix}${prefix}`, afterKey: `${bucketPrefix}${afterKey}` };
      const rows = await uploads.list(bucketPrefix, within, { capsulePrefix: tenant.capsulePrefix, signal });
      return rows.map(({ key, id, createdAt }) => ({ key: key.slice(bucketPrefix.length), id, createdAt }));
    },
  };
}

async function uploadAt(
  uploads: Uploads,
  { tenant }: ObjectCall,
  { bucket, id, key }: UploadAt,
): Promise<OpenUpload> {
  const bucketPrefix = tenant.prefixes[bucket];
  const upload = await uploads.find(bucketPrefix, id);
  if (upload === undefined || (key !== undefined && upload.key !== physicalKey(tenant.prefixes, bucket, key)))
    throw new NoSuchUpload();
  return upload;
}

function beginUploads(client: S3Client, uploads: Uploads, writer: Writer): Multipart['createUpload'] {
  return async (call, ref, headers) => {
    const { tenant } = call;
    if (isMarker(ref.key)) throw new ServiceError('invalid_request', 'a directory marker has no parts');
    const key = physical(call, ref);
    const bucketPrefix = tenant.prefixes[ref.bucket];
    const charge = { bytes: 0, entries: entriesOf(ref.key) + UPLOAD_ENTRIES };
    return writer.write(call, charge, {
      act: async (reservation, bytes) => {
        const id = await uploads
          .open({ capsulePrefix: tenant.capsulePrefix, bucketPrefix, key, bytes })
          .catch((error: unknown) => {
            // The server was not asked.
            reservation.release();
            throw error;
          });
        await reservation.move();
        await begin(client, uploads, { id, capsulePrefix: tenant.capsulePrefix, key, headers });
        return id;
      },
    });
  };
}

interface Beginning {
  readonly id: string;
  readonly capsulePrefix: string;
  readonly key: string;
  readonly headers: Headers;
}

/** Without the caller's signal, since the row must say what became of the upload. */
async function begin(
  client: S3Client,
  uploads: Uploads,
  { id, capsulePrefix, key, headers }: Beginning,
): Promise<void> {
  let upstreamId: string;
  try {
    upstreamId = await client.createUpload(key, { headers });
  } catch (error) {
    // The upkeep looks at a row that nothing could be noted in.
    await uploads.unbegun(id, doubtOf(error)).catch(() => undefined);
    throw error;
  }
  try {
    if (!(await uploads.begun({ id, capsulePrefix, upstreamId }))) throw new NoSuchUpload();
  } catch (error) {
    // Nobody will ever learn its id.
    const aborted = client.abortUpload(key, upstreamId).then(() => uploads.unbegun(id, undefined));
    await aborted.catch(() => undefined);
    throw error;
  }
}

function partWrites(
  client: S3Client,
  uploads: Uploads,
  { writer, lateMs }: { readonly writer: Writer; readonly lateMs: number | undefined },
): Pick<Multipart, 'putPart' | 'copyPart'> {
  const lookLater = lateLooks(client, uploads, lateMs);
  /** A part whose outcome is unknown counts, too, until some time after the upload has ended. */
  const intoRow =
    (upload: OpenUpload) =>
    async (reservation: Reservation, bytes: number, doubted: number | undefined): Promise<void> => {
      if (doubted !== undefined) lookLater(upload);
      // It is counted twice for a moment rather than not at all.
      const isOpen = await uploads.addBytes(upload, bytes, doubted !== undefined);
      await reservation.move();
      if (isOpen) return;
      await clearLateParts(client, upload);
      if (doubted === undefined) throw new NoSuchUpload();
    };

  return {
    putPart: async (call, at, body, headers) => {
      checkPart(at.number);
      const upload = await uploadAt(uploads, call, at);
      const { signal } = call;
      return writer.write(
        call,
        { bytes: body.length, entries: 1 },
        {
          act: async () =>
            client.putPart(upload.key, upload.upstreamId, at.number, await sendable(body), {
              headers,
              signal,
            }),
          sent: () => body.stream.readableEnded,
          stored: intoRow(upload),
        },
      );
    },
    copyPart: async (call, at, from, headers) => {
      checkPart(at.number);
      if (isMarker(from.key)) throw new ServiceError('invalid_request', 'a directory marker is no part');
      const upload = await uploadAt(uploads, call, at);
      return writer.copy(call, from, (source) => {
        const size = rangeLength(headers['x-amz-copy-source-range'], source.size);
        const to = { key: upload.key, upload: upload.upstreamId, number: at.number };
        const all = { ...headers, ...source.headers };
        return writer.write(
          call,
          { bytes: size, entries: 1 },
          // Without the caller's signal, since the server continues and the outcome must be known.
          { act: () => client.copyPart(source.key, to, { headers: all }), stored: intoRow(upload) },
        );
      });
    },
  };
}

/**
 * Looks again at an upload after a part of it had no answer: the server may store the part after the upload has ended, and
 * lists it nowhere.
 */
function lateLooks(client: S3Client, uploads: Uploads, lateMs = LATE_MS): (upload: OpenUpload) => void {
  const timers = new Map<string, NodeJS.Timeout>();
  return (upload) => {
    if (upload.credentialSet !== null) return;
    const look = async () => {
      timers.delete(upload.id);
      if ((await uploads.find(upload.bucketPrefix, upload.id)) === undefined)
        await clearLateParts(client, upload);
    };
    const timer =
      timers.get(upload.id)?.refresh() ?? setTimeout(() => void look().catch(() => undefined), lateMs);
    timers.set(upload.id, timer.unref());
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
