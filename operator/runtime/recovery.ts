import { type Clock, sleep } from './clock.ts';

/**
 * Wakes all reflectors that wait to ask a server again, once the server has answered one of them. So long waits cost a
 * failed server little, and delay nobody after it is back.
 */
export class Recovery {
  #next = new AbortController();

  answered(): void {
    this.#next.abort();
    this.#next = new AbortController();
  }

  /** Resolves with true if an answer came before the time was over. */
  async wait(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
    const next = this.#next.signal;
    await sleep(clock, ms, AbortSignal.any([next, signal]));
    return next.aborted;
  }
}
