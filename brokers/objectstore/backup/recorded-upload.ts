import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { etagOfParts, isNoUpload, nameWhileCompleting } from '../objects/upload-ends.ts';
import type { S3Client } from '../upstream/types.ts';
import { damagedRecord } from './errors.ts';
import { listed, type Source } from './pieces.ts';
import { isAbsent, retrying } from './retrying.ts';

/** The id of an upload at the S3 server, and the entity tag of the object that its parts are being made to. */
const recordSchema = z.strictObject({ key: z.string(), id: z.string(), etag: z.string() });
type Completing = z.infer<typeof recordSchema>;

const MOST_RECORD = 16 * 1024;
const ABORT_MS = 5_000;
/** Each attempt to complete an upload may have given it another name. */
const MOST_NAMES = 4;

/** The names under which the S3 server may have the parts, the latest first. */
function namesOf({ id, etag }: Pick<Completing, 'id' | 'etag'>): readonly string[] {
  const names = [id];
  for (let name = id; names.length < MOST_NAMES; names.unshift(name)) name = nameWhileCompleting(name, etag);
  return names;
}

type Ends = Pick<S3Client, 'put' | 'delete' | 'abortUpload'>;
type Parts = readonly { readonly number: number; readonly etag: string }[];

/**
 * The end of an upload of this program. versitygw gives an upload another name while it makes an object of the parts, and lists it
 * no more: if it dies then, nobody would find them. So an object records the upload until that is over.
 */
export class RecordedUpload {
  readonly #s3: Ends;
  readonly #upload: Pick<Completing, 'key' | 'id'>;
  readonly #folder: string;
  #completing: Completing | undefined;
  #record: string | undefined;

  /** Records are kept under the prefix `folder`. */
  constructor(s3: Ends, upload: Pick<Completing, 'key' | 'id'>, folder: string) {
    this.#s3 = s3;
    this.#upload = upload;
    this.#folder = folder;
  }

  /**
   * Records that these parts are to be completed; may be repeated. Returns the names under which the server may have them after an
   * attempt to do so, the latest first.
   */
  async note(parts: Parts, signal: AbortSignal): Promise<readonly string[]> {
    const { key, id } = this.#upload;
    const etag = etagOfParts(parts);
    // Then it is another server.
    if (etag === undefined) return [id];
    this.#completing = { key, id, etag };
    this.#record ??= `${this.#folder}${randomUUID()}`;
    const headers = { 'content-type': 'application/json' };
    await this.#s3.put(this.#record, Buffer.from(JSON.stringify(this.#completing)), { headers, signal });
    return namesOf(this.#completing);
  }

  /** Removes the record when the object is there. Never rejects: a record that remains is removed later. */
  async done(signal: AbortSignal): Promise<void> {
    if (this.#record !== undefined) await this.#s3.delete(this.#record, { signal }).catch(() => undefined);
  }

  /** Aborts it after a failure. If that fails, too, the server lists it, or there is a record of it. Never rejects. */
  async abandon(): Promise<void> {
    const signal = AbortSignal.timeout(ABORT_MS);
    try {
      await abortAll(this.#s3, this.#completing ?? this.#upload, signal);
      if (this.#record !== undefined) await this.#s3.delete(this.#record, { signal });
    } catch {
      return;
    }
  }
}

/** In the order in which a server that is still at work with it may give it another name. */
async function abortAll(
  s3: Pick<S3Client, 'abortUpload'>,
  upload: Pick<Completing, 'key' | 'id'> | Completing,
  signal: AbortSignal,
): Promise<void> {
  const names = 'etag' in upload ? namesOf(upload).toReversed() : [upload.id];
  for (const name of names)
    await s3.abortUpload(upload.key, name, { signal }).catch((error: unknown) => {
      if (!isNoUpload(error, name, { upstreamId: upload.id })) throw error;
    });
}

/** Aborts the uploads with records that were written before a time, if one is given; returns how many there were. */
export async function abortRecorded(
  { s3, clock, signal }: Source<Ends & Pick<S3Client, 'list' | 'read'>>,
  folder: string,
  before?: Date,
): Promise<number> {
  let count = 0;
  for await (const { key: record, modified } of listed({ s3, clock, signal }, folder)) {
    if (before !== undefined && !(Date.parse(modified) < before.getTime())) continue;
    const isAborted = await retrying(clock, signal, async () => {
      const upload = await completingIn(s3, record, signal);
      if (upload === undefined) return false;
      await abortAll(s3, upload, signal);
      await s3.delete(record, { signal });
      return true;
    });
    if (isAborted) count += 1;
  }
  return count;
}

/** Undefined if the upload has ended meanwhile. */
async function completingIn(
  s3: Pick<S3Client, 'read'>,
  record: string,
  signal: AbortSignal,
): Promise<Completing | undefined> {
  try {
    const { body } = await s3.read(record, MOST_RECORD, { signal });
    return recordSchema.parse(JSON.parse(body.toString()));
  } catch (error) {
    if (isAbsent(error)) return undefined;
    if (error instanceof SyntaxError || error instanceof z.ZodError) throw damagedRecord(record, error);
    throw error;
  }
}
