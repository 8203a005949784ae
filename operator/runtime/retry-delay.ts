import { Backoff } from './backoff.ts';
import { type Clock, sleep } from './clock.ts';
import { ApiError, TransportError } from './errors.ts';
import type { Recovery } from './recovery.ts';

const LIMITS = { firstMs: 100, longestMs: 30_000 };

/** How long a reflector waits after a failure, and what ends the wait early. */
export class RetryDelay {
  readonly #clock: Clock;
  readonly #recovery: Recovery;
  /**
   * Unanswered requests have their own backoff: a server that is back may refuse requests for a moment, and its earlier
   * absence must not lengthen those waits.
   */
  readonly #unanswered: Backoff;
  readonly #refused: Backoff;
  /**
   * The wait ended early and nothing was received since: the server may answer for other kinds and not for this one.
   */
  #woken = false;

  constructor(clock: Clock, recovery: Recovery) {
    this.#clock = clock;
    this.#recovery = recovery;
    this.#unanswered = new Backoff(LIMITS, clock);
    this.#refused = new Backoff(LIMITS, clock);
  }

  /** The server has answered, so everyone who waits for it may go on. */
  answered(): void {
    this.#recovery.answered();
  }

  /** The watch has brought something, so the next failure counts as the first. */
  reset(): void {
    this.#unanswered.reset();
    this.#refused.reset();
    this.#woken = false;
  }

  /** Milliseconds to wait after this failure; each further failure of its kind makes the next wait longer. */
  after(error: unknown): number {
    return error instanceof ApiError
      ? Math.max(this.#refused.next(), error.retryAfterMs ?? 0)
      : this.#unanswered.next();
  }

  /** Waits. After an unanswered request, an answer to another reflector ends the wait. */
  async wait(error: unknown, ms: number, signal: AbortSignal): Promise<void> {
    if (error instanceof TransportError && !this.#woken)
      this.#woken = await this.#recovery.wait(this.#clock, ms, signal);
    else await sleep(this.#clock, ms, signal);
  }

  /** Waits after the server has ended a watch at once, as after a refusal. */
  async waitAfterEnd(signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, this.#refused.next(), signal);
  }
}
