import type { ServerResponse } from 'node:http';
import { SharedSlots } from '@space/broker-kit';
import { PageError } from './outcome.ts';

/** Lists of thousands of rows are in memory while a page is created; a browser opens six connections. */
const SHARES = { total: 32, perKey: 8, queued: 256, queuedPerKey: 32 };
/** The longest that a request waits for its turn. */
const WAIT_MS = 10_000;
/** The longest that an answer may take to be read. */
const READ_MS = 60_000;

/**
 * Limits the pages and acts that are being created or read, in total and for one person in any number of sessions, so
 * that nobody uses up the console's memory or the API server's capacity.
 */
export class Turns {
  readonly #slots: SharedSlots;
  readonly #readMs: number;

  constructor({
    readMs = READ_MS,
    waitMs = WAIT_MS,
  }: {
    readonly readMs?: number | undefined;
    readonly waitMs?: number | undefined;
  } = {}) {
    this.#slots = new SharedSlots({ ...SHARES, waitMs });
    this.#readMs = readMs;
  }

  /**
   * Returns a function to call when the answer is complete; the slot is free once it was also read. @throws PageError
   * if the person has too many
   */
  async enter(person: string, response: ServerResponse): Promise<() => void> {
    const left = new AbortController();
    const leave = () => left.abort();
    response.once('close', leave);
    if (response.closed) leave();
    const giveBack = await this.#slots.take(person, left.signal).catch((cause: unknown) => {
      throw new PageError(
        429,
        'Too many requests at the same time',
        'You, or many people together, sent too many. Try again in a moment.',
        { cause },
      );
    });
    response.off('close', leave);
    return () => {
      if (response.closed) return giveBack();
      const slow = setTimeout(() => response.destroy(), this.#readMs).unref();
      response.once('close', () => {
        clearTimeout(slow);
        giveBack();
      });
    };
  }
}
