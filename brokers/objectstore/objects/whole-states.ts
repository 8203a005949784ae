import { Writable } from 'node:stream';
import { S3Error } from '../upstream/errors.ts';
import type { Head, SinkFor } from '../upstream/relay.ts';
import type { Headers, S3Client } from '../upstream/types.ts';

/** How often a read begins of an object that is being replaced. */
const ATTEMPTS = 5;
/** Milliseconds: times in answers are whole seconds, and a file gets its time a moment before its name. */
const YOUNG_MS = 3_000;
const TORN = 'StateReplaced';
/** The headers that tell two states of an object apart. */
export const STATE = ['content-length', 'etag', 'last-modified'] as const;

/** The latest time that this state may have by the server's clock, before all times of later ones; undefined if it is young. */
export function lastTimeOf({ date = '', 'last-modified': modified = '' }: Headers): string | undefined {
  const last = Date.parse(modified) + 1_000;
  return Date.parse(date) - last >= YOUNG_MS ? new Date(last).toUTCString() : undefined;
}

type Reads = Pick<S3Client, 'get' | 'head'>;

/**
 * Wraps reads of the Space's bucket. If an object is replaced while versitygw looks at it, an answer can be of two states, since it
 * reads the entity tag apart: that of GET has the tag of one and the bytes of the next, which is young then, so that the tag of
 * each answer with a young state is compared with the present one. That of HEAD has the size of one and the tag of the next, and
 * nothing that shows it: with `isTorn`, it is asked for until two answers are the same. `look` has connections of its
 * own, since a request that waited for a second one might wait for others that do.
 */
export function wholeStates(
  client: Reads,
  { look, isTorn }: { readonly look: Pick<S3Client, 'head'>; readonly isTorn: boolean },
): Reads {
  return {
    get: async (key, options, sinkFor) => {
      const check = async ({ headers }: Head) => {
        const present = await look.head(key, { signal: options.signal }).catch(gone);
        if (present?.headers['etag'] !== headers['etag']) throw replaced();
      };
      for (let attempt = 1; ; attempt += 1)
        try {
          return await client.get(key, options, checking(check, sinkFor));
        } catch (error) {
          if (attempt === ATTEMPTS || !(error instanceof S3Error && error.code === TORN)) throw error;
        }
    },
    head: async (key, options) => {
      let found = await client.head(key, options);
      for (let attempt = 1; isTorn && attempt < ATTEMPTS; attempt += 1) {
        const again = await client.head(key, options);
        if (STATE.every((name) => again.headers[name] === found.headers[name])) return again;
        found = again;
      }
      if (isTorn) throw replaced();
      return found;
    },
  };
}

const replaced = () => new S3Error('answered', 503, TORN);

/** Then the next read says so. */
function gone(error: unknown): undefined {
  if (!(error instanceof S3Error && error.status === 404)) throw error;
}

function checking(check: (head: Head) => Promise<void>, sinkFor: SinkFor): SinkFor {
  return (head) => {
    const isYoung = head.status !== 304 && lastTimeOf(head.headers) === undefined;
    return isYoung ? new Checked(check(head), () => sinkFor(head)) : sinkFor(head);
  };
}

/** Passes a body on to a sink that is made when a check has succeeded. */
class Checked extends Writable {
  readonly #checked: Promise<void>;
  readonly #begin: () => Writable;
  #sink: Writable | undefined;

  constructor(checked: Promise<void>, begin: () => Writable) {
    super();
    this.#checked = checked;
    this.#begin = begin;
  }

  override _construct(done: (error?: Error) => void): void {
    this.#checked.then(() => this.#connect()).then(() => done(), done);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#sink?.write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#sink?.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (error !== null) this.#sink?.destroy(error);
    done(error);
  }

  #connect(): void {
    if (this.destroyed) return;
    const sink = this.#begin();
    this.#sink = sink
      .on('error', (error) => this.destroy(error))
      .on('close', () => sink.writableFinished || this.destroy(new Error('closed before the end')));
  }
}
