import { randomUUID } from 'node:crypto';
import { isNoUpload } from '../objects/upload-ends.ts';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';
import { CHUNK_BYTES } from './payload.ts';
import type { Source } from './pieces.ts';
import { RecordedUpload } from './recorded-upload.ts';
import { isAbsent, retrying } from './retrying.ts';
import { type Bytes, going, type Sealer } from './sealer.ts';
import { upload } from './uploading.ts';

/** The chunks of the first part: 8 MiB, so that 78 GiB fit into the 10,000 parts of S3. */
const PART_CHUNKS = 128;
const PART_BYTES = PART_CHUNKS * CHUNK_BYTES;
const HEADERS = { 'content-type': 'application/octet-stream' };
/** A header with a value that only one upload has, by which its object is recognised. */
const MARK = 'x-amz-meta-upload';

type Uploads = Pick<
  S3Client,
  'put' | 'head' | 'delete' | 'createUpload' | 'putPart' | 'completeUpload' | 'abortUpload'
>;

interface HeadLast {
  readonly key: string;
  /** The number of bytes of the head. */
  readonly headBytes: number;
  /** What follows the head. */
  readonly rest: Bytes;
  /** Produces the head, once, after `rest` has ended. */
  readonly head: () => Promise<Uint8Array>;
  /** The prefix of records of uploads that are being completed, which `abortRecorded` reads. */
  readonly records: string;
}

/**
 * Writes an encrypted object that begins with what is known last. No more than some parts of it are in memory: S3 takes the parts
 * in any order, so the first is sent last. Afterwards the object is complete, or as it was before.
 */
export async function writeHeadLast(to: Source<Uploads>, sealer: Sealer, wanted: HeadLast): Promise<void> {
  const { key, headBytes, head, records } = wanted;
  const rest = wanted.rest[Symbol.asyncIterator]();
  try {
    const first = Buffer.alloc(PART_BYTES);
    const { used, over } = await filled(first, headBytes, rest);
    if (over !== undefined)
      return await inParts(to, sealer, { key, head, records, first, following: going(rest, over) });
    first.set(await head());
    const plain = first.subarray(0, used);
    await retrying(to.clock, to.signal, async () => {
      const sealed = await sealer.seal(once(plain), plain.length);
      await upload(to, { key, ...sealed, headers: HEADERS, records });
    });
  } finally {
    await rest.return?.();
  }
}

/** Fills a buffer from an offset on; `over` is what did not fit into it. */
async function filled(
  buffer: Buffer,
  offset: number,
  source: AsyncIterator<Uint8Array>,
): Promise<{ readonly used: number; readonly over: Uint8Array | undefined }> {
  let used = offset;
  for (let next = await source.next(); next.done !== true; next = await source.next()) {
    const taken = next.value.subarray(0, buffer.length - used);
    buffer.set(taken, used);
    used += taken.length;
    if (taken.length < next.value.length) return { used, over: next.value.subarray(taken.length) };
  }
  return { used, over: undefined };
}

interface InParts extends Pick<HeadLast, 'key' | 'head' | 'records'> {
  readonly first: Buffer;
  readonly following: Bytes;
}

async function inParts(
  to: Source<Uploads>,
  sealer: Sealer,
  { key, head, records, first, following }: InParts,
): Promise<void> {
  const { s3, clock, signal } = to;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const sealing = await sealer.sealInParts();
  const mark = randomUUID();
  const id = await again(() => s3.createUpload(key, { headers: { ...HEADERS, [MARK]: mark }, signal }));
  const recorded = new RecordedUpload(s3, { key, id }, records);
  try {
    let bytes = 0;
    const done: { readonly number: number; readonly etag: string }[] = [];
    const send = async (number: number, part: Buffer) => {
      const { etag } = await again(() => s3.putPart(key, id, number, part, { signal }));
      done.push({ number, etag });
      bytes += part.length;
    };
    // Some servers take no parts of different lengths, except a shorter last one.
    const length = sealing.firstLength(PART_CHUNKS);
    for await (const part of parted(sealing.rest(following, PART_CHUNKS), length))
      await send(done.length + 2, part);
    first.set(await head());
    await send(1, sealing.first(first));
    const inOrder = done.toSorted((a, b) => a.number - b.number);
    const complete = (name: string) => s3.completeUpload(key, name, inOrder, { signal });
    const names = await again(() => recorded.note(inOrder, signal));
    let isRepeated = false;
    await again(async () => {
      if (isRepeated) return completeAgain(to, { key, id, mark, bytes, names }, complete);
      isRepeated = true;
      await complete(id);
    });
    await recorded.done(signal);
  } catch (error) {
    // What remains is aborted later, by `expire`.
    await recorded.abandon();
    throw error;
  }
}

interface Again {
  readonly key: string;
  readonly id: string;
  readonly mark: string;
  readonly bytes: number;
  readonly names: readonly string[];
}

/**
 * Completes an upload of which an attempt had no answer. The server may have done it and not know the upload any more, or may have
 * died: then versitygw has the parts under another name, and calls a completion under the former one successful without doing it.
 */
async function completeAgain(
  to: Source<Uploads>,
  { key, id, mark, bytes, names }: Again,
  complete: (name: string) => Promise<unknown>,
): Promise<void> {
  for (const name of names) {
    await complete(name).catch((error: unknown) => {
      if (!isNoUpload(error, name, { upstreamId: id })) throw error;
    });
    if (await isWritten(to, { key, mark, bytes })) return;
  }
  throw new S3Error('answered', 404, 'NoSuchUpload');
}

/** Whether the key has the object of exactly that upload. */
async function isWritten(
  { s3, clock, signal }: Source<Uploads>,
  { key, mark, bytes }: { readonly key: string; readonly mark: string; readonly bytes: number },
): Promise<boolean> {
  try {
    const { headers } = await retrying(clock, signal, () => s3.head(key, { signal }));
    return headers[MARK] === mark && headers['content-length'] === String(bytes);
  } catch (error) {
    if (isAbsent(error)) return false;
    throw error;
  }
}

/** Gathers bytes into parts of one length; the last may be shorter. */
async function* parted(bytes: Bytes, length: number): AsyncGenerator<Buffer> {
  let part = Buffer.allocUnsafe(length);
  let used = 0;
  for await (const piece of bytes)
    for (let at = 0; at < piece.length; ) {
      const taken = piece.subarray(at, at + length - used);
      part.set(taken, used);
      used += taken.length;
      at += taken.length;
      if (used < length) continue;
      yield part;
      [part, used] = [Buffer.allocUnsafe(length), 0];
    }
  if (used > 0) yield part.subarray(0, used);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
