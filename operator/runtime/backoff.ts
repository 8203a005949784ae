import type { Clock } from './clock.ts';

export interface BackoffOptions {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** Waits that double, half of each at random, so that many clients do not return at the same time. */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #clock: Clock;
  #failures = 0;

  constructor(options: BackoffOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  next(): number {
    const full = Math.min(this.#options.longestMs, this.#options.firstMs * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return full / 2 + (full / 2) * this.#clock.random();
  }

  reset(): void {
    this.#failures = 0;
  }
}
