import { Backoff } from './backoff.ts';
import { type Clock, sleep } from './clock.ts';
import { ApiError, TransportError } from './errors.ts';
import type { Recovery } from './recovery.ts';

const LIMITS = { firstMs: 100, longestMs: 30_000 };

/** How long a reflector waits before it asks its server again, and what ends the wait sooner. */
export class RetryDelay {
  readonly #clock: Clock;
  readonly #recovery: Recovery;
  /** Counted apart: a server that is back may refuse all for a moment, and how long it was away does not count then. */
  readonly #unanswered: Backoff;
  readonly #refused: Backoff;
  /** It was woken before its time and has heard nothing since: what is back for others need not be for this kind. */
  #woken = false;

  constructor(clock: Clock, recovery: Recovery) {
    this.#clock = clock;
    this.#recovery = recovery;
    this.#unanswered = new Backoff(LIMITS, clock);
    this.#refused = new Backoff(LIMITS, clock);
  }

  /** The server has answered, so that whoever waits for it need not wait any longer. */
  answered(): void {
    this.#recovery.answered();
  }

  /** The watch has brought something: the next failure is the first of its kind again. */
  reset(): void {
    this.#unanswered.reset();
    this.#refused.reset();
    this.#woken = false;
  }

  /** Milliseconds to wait after this failure; each call makes the next wait of its kind longer. */
  after(error: unknown): number {
    return error instanceof ApiError
      ? Math.max(this.#refused.next(), error.retryAfterMs ?? 0)
      : this.#unanswered.next();
  }

  /** Waits; where nobody answered, only until the server has answered somebody else. */
  async wait(error: unknown, ms: number, signal: AbortSignal): Promise<void> {
    if (error instanceof TransportError && !this.#woken)
      this.#woken = await this.#recovery.wait(this.#clock, ms, signal);
    else await sleep(this.#clock, ms, signal);
  }

  /** Waits as after a refusal: the server ended a watch at once. */
  async waitAfterEnd(signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, this.#refused.next(), signal);
  }
}
