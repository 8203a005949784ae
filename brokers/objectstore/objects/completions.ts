import { setTimeout as pause } from 'node:timers/promises';
import { ServiceError } from '@space/broker-kit';
import type { Ending } from '../quota/credits.ts';
import { S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import { clearLateParts } from './abandoned-uploads.ts';
import { logicalKey, physicalOf } from './object-key.ts';
import type { ObjectCall, UploadAt } from './types.ts';
import { etagOfParts, isNoUpload, type Names, nameWhileCompleting, type Parts } from './upload-ends.ts';
import type { OpenUpload, Uploads } from './uploads.ts';
import { doubtOf } from './writer.ts';

/** Milliseconds for finding out whether an upload was completed before. */
const RECOGNISE_MS = 30_000;
/** Milliseconds between two looks at a completion of another request. */
const LOOK_MS = 500;
/** Different completions of an upload at the same time, each of which keeps a list of up to 10,000 parts. */
const MOST_WAITING = 4;
/** Milliseconds in which a completion that has lost its answer may still make the object. */
const LOST_MS = 10_000;
/** Milliseconds between two signs of life of a running completion. */
const KEEP_MS = 15_000;

/** A class of its own, since S3 has a separate code for it. */
export class NoSuchUpload extends ServiceError {
  constructor() {
    super('not_found', 'no such upload');
  }
}

interface Asked {
  readonly parts: Parts;
  readonly headers: Headers;
}

interface Completed {
  readonly key: string;
  readonly etag: string;
}

/** Completes uploads. A repeated request has the same answer at any time. */
export class Completions {
  readonly #client: S3Client;
  readonly #uploads: Uploads;
  readonly #ending: Ending;
  /** Running completions by upload id, and by what they ask. */
  readonly #running = new Map<string, Map<string, Promise<Completed>>>();

  constructor(client: S3Client, uploads: Uploads, ending: Ending = (_call, _keys, act) => act()) {
    this.#client = client;
    this.#uploads = uploads;
    this.#ending = ending;
  }

  /**
   * Completes an open upload; a concurrent caller with the same request gets the same result. Others wait in turn.
   * @throws ServiceError `unavailable` if too many wait
   */
  end(call: ObjectCall, at: UploadAt, upload: OpenUpload, { parts, headers }: Asked): Promise<Completed> {
    const running = this.#running.get(upload.id) ?? new Map<string, Promise<Completed>>();
    const asked = JSON.stringify([parts, headers]);
    const same = running.get(asked);
    if (same !== undefined) return same;
    if (running.size >= MOST_WAITING)
      throw new ServiceError('unavailable', 'the upload is being completed', { retryAfter: 1 });
    const end = this.#complete(call, at, upload, { parts, headers }).finally(() => {
      running.delete(asked);
      if (running.size === 0) this.#running.delete(upload.id);
    });
    this.#running.set(upload.id, running.set(asked, end));
    return end;
  }

  /** The answer for an upload without a row: completed if its object exists, otherwise unknown. */
  async before(call: ObjectCall, { bucket, key }: UploadAt, parts: Parts): Promise<Completed> {
    if (key === undefined) throw new NoSuchUpload();
    const physicalKey = physicalOf(call, { bucket, key });
    this.#uploads.demand?.(call.tenant.prefixes[bucket], physicalKey);
    const etag = await this.#etagOfWhole(physicalKey, parts, call.signal);
    if (etag === undefined) throw new NoSuchUpload();
    return { key, etag };
  }

  async #complete(
    { tenant }: ObjectCall,
    { bucket }: UploadAt,
    upload: OpenUpload,
    asked: Asked,
  ): Promise<Completed> {
    const key = logicalKey(tenant.prefixes, bucket, upload.key) ?? '';
    const names = await this.#turn(upload, asked.parts);
    if (names === undefined) return { key, etag: etagOfParts(asked.parts) ?? '' };
    const kept = setInterval(() => void this.#uploads.keep(upload).catch(() => undefined), KEEP_MS);
    try {
      // Without the caller's signal, since a caller that goes away after the upstream has begun must not leave the row
      // behind.
      const { etag } = await this.#ending(
        { tenant, signal: AbortSignal.timeout(RECOGNISE_MS) },
        [upload.key],
        () => this.#ask(upload, names, asked),
        { mayRepeat: true },
      ).catch((error: unknown) => this.#failed(error, upload, names, asked.parts));
      await this.#uploads.close(upload, false);
      // The object exists, whatever becomes of late parts.
      await clearLateParts(this.#client, upload, names).catch(() => undefined);
      return { key, etag };
    } finally {
      clearInterval(kept);
    }
  }

  /**
   * Waits for the right to complete the upload: a server that is asked for the same thing twice may answer that it is done
   * before it is. Undefined if another request has completed it meanwhile.
   */
  async #turn(upload: OpenUpload, parts: Parts): Promise<Names | undefined> {
    for (;;) {
      const names = await this.#uploads.take(upload, { to: 'complete', etag: etagOfParts(parts) });
      if (typeof names !== 'string') return names;
      if (names === 'gone') {
        if ((await this.#presentOf(upload, parts)) === undefined) throw new NoSuchUpload();
        return undefined;
      }
      await pause(LOOK_MS);
    }
  }

  /** Asks under the upload's only name; or, after a completion that has lost its answer, until the object is there. */
  async #ask(
    upload: OpenUpload,
    names: Names,
    { parts, headers }: Asked,
  ): Promise<{ readonly etag: string }> {
    const ask = (name: string) => this.#client.completeUpload(upload.key, name, parts, { headers });
    if (names.length === 1) return ask(names[0]);
    for (const until = performance.now() + LOST_MS; performance.now() < until; await pause(LOOK_MS)) {
      const etag = await this.#presentOf(upload, parts);
      if (etag !== undefined) return { etag };
    }
    for (const name of names) {
      await ask(name).catch((error: unknown) => {
        if (!isNoUpload(error, name, upload)) throw error;
      });
      const etag = await this.#presentOf(upload, parts);
      if (etag !== undefined) return { etag };
    }
    throw new S3Error('answered', 404, 'NoSuchUpload');
  }

  /** The entity tag, if the upload was completed before. Otherwise gives the right back. @throws the error */
  async #failed(
    error: unknown,
    upload: OpenUpload,
    names: Names,
    parts: Parts,
  ): Promise<{ readonly etag: string }> {
    const isGone = error instanceof S3Error && error.code === 'NoSuchUpload';
    const before = isGone ? await this.#presentOf(upload, parts) : undefined;
    if (before !== undefined) return { etag: before };
    const etag = etagOfParts(parts);
    const completing = etag === undefined ? names[0] : nameWhileCompleting(names[0], etag);
    if ((doubtOf(error) ?? 0) > 0) await this.#uploads.giveBack(upload, completing).catch(() => undefined);
    else {
      // The server cannot give the upload its name back if a part of it has come meanwhile.
      if (completing !== names[0])
        await clearLateParts(this.#client, upload, [completing]).catch(() => undefined);
      await this.#uploads.giveBack(upload, names[0]).catch(() => undefined);
    }
    throw error;
  }

  #presentOf({ key }: OpenUpload, parts: Parts): Promise<string | undefined> {
    return this.#etagOfWhole(key, parts, AbortSignal.timeout(RECOGNISE_MS));
  }

  /**
   * The entity tag of the present object, if it consists of exactly these parts: then they were completed before, and
   * the caller did not get that answer.
   */
  async #etagOfWhole(key: string, parts: Parts, signal: AbortSignal): Promise<string | undefined> {
    const expected = etagOfParts(parts);
    if (expected === undefined) return undefined;
    try {
      const { headers } = await this.#client.head(key, { signal });
      return headers['etag'] === expected ? expected : undefined;
    } catch (error) {
      if (error instanceof S3Error && error.status === 404) return undefined;
      throw error;
    }
  }
}
