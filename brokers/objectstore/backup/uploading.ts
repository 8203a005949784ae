import { Readable } from 'node:stream';
import type { Headers, S3Client } from '../upstream/types.ts';
import type { Source } from './pieces.ts';
import { RecordedUpload } from './recorded-upload.ts';
import { retrying } from './retrying.ts';
import type { Bytes } from './sealer.ts';

/** The default part size of a large upload; a smaller object is sent in one request. */
const PART_BYTES = 16 * 1024 * 1024;
const MOST_PARTS = 10_000;

type Uploads = Pick<
  S3Client,
  'put' | 'delete' | 'createUpload' | 'putPart' | 'completeUpload' | 'abortUpload'
>;

export interface Upload {
  readonly key: string;
  readonly bytes: Bytes;
  /** The exact number of bytes. */
  readonly length: number;
  readonly headers?: Headers;
  /** Bytes of each part but the last; `whole` means one request whatever the length. */
  readonly parts?: number | 'whole' | undefined;
  /** The prefix of records of uploads that are being completed, which `abortRecorded` reads. */
  readonly records: string;
}

/** Writes an object from a stream, in parts if it is large. Afterwards the object is complete, or as it was before. */
export async function upload(to: Source<Uploads>, wanted: Upload): Promise<void> {
  const { key, bytes, length, headers = {}, parts, records } = wanted;
  const { s3, signal } = to;
  const least = Math.ceil(length / MOST_PARTS);
  const size = parts === 'whole' ? length : Math.max(parts ?? PART_BYTES, least);
  const pieces = new Pieces(bytes);
  try {
    if (parts === 'whole' || (parts === undefined && length <= size)) {
      const stream = Readable.from(pieces.all(), { objectMode: false });
      await s3.put(key, { stream, length }, { headers, signal });
    } else await inParts(to, pieces, { key, length, size, headers, records });
  } catch (error) {
    // A failed source appears to the request as a broken connection.
    throw pieces.failure === undefined ? error : pieces.failure.error;
  } finally {
    await pieces.close();
  }
}

async function inParts(
  { s3, clock, signal }: Source<Uploads>,
  pieces: Pieces,
  wanted: Required<Omit<Upload, 'bytes' | 'parts'>> & { readonly size: number },
): Promise<void> {
  const { key, length, size, headers, records } = wanted;
  const id = await s3.createUpload(key, { headers, signal });
  const recorded = new RecordedUpload(s3, { key, id }, records);
  try {
    const done: { number: number; etag: string }[] = [];
    for (let from = 0; from < length; from += size) {
      const number = done.length + 1;
      const bytes = Math.min(size, length - from);
      // Nothing follows the last part, so its stream is read to the end, where a damaged source is detected.
      const isLast = from + bytes === length;
      const stream = Readable.from(isLast ? pieces.all() : pieces.take(bytes), { objectMode: false });
      const { etag } = await s3.putPart(key, id, number, { stream, length: bytes }, { signal });
      done.push({ number, etag });
    }
    // All parts would have to be sent again for this small object.
    await retrying(clock, signal, () => recorded.note(done, signal));
    await s3.completeUpload(key, id, done, { signal });
    await recorded.done(signal);
  } catch (error) {
    // What remains is aborted later: by `expire` in the destination; in the Space's bucket by the broker's upkeep, or when the
    // restore goes on.
    await recorded.abandon();
    throw error;
  }
}

/** Divides a stream into parts without holding a whole part in memory. */
class Pieces {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Uint8Array | undefined;
  /** The error of the source. */
  failure: { readonly error: unknown } | undefined;

  constructor(source: Bytes) {
    this.#source = source[Symbol.asyncIterator]();
  }

  all(): AsyncGenerator<Uint8Array> {
    return this.take(Number.POSITIVE_INFINITY);
  }

  /** The next `length` bytes, or fewer at the end. */
  async *take(length: number): AsyncGenerator<Uint8Array> {
    for (let left = length; left > 0; ) {
      const piece = this.#rest ?? (await this.#next());
      this.#rest = undefined;
      if (piece === undefined) return;
      const taken = piece.subarray(0, Math.min(left, piece.length));
      if (taken.length < piece.length) this.#rest = piece.subarray(taken.length);
      left -= taken.length;
      if (taken.length > 0) yield taken;
    }
  }

  async close(): Promise<void> {
    await this.#source.return?.().catch(() => undefined);
  }

  async #next(): Promise<Uint8Array | undefined> {
    try {
      const { done, value } = await this.#source.next();
      return done === true ? undefined : value;
    } catch (error) {
      this.failure = { error };
      throw error;
    }
  }
}
