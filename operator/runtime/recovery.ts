import { type Clock, sleep } from './clock.ts';

/**
 * Those who wait to ask a server again that did not answer hear when it has answered one of them: it is back for all. So
 * long waits cost the server little while it is away, and nobody anything when it is back.
 */
export class Recovery {
  #next = new AbortController();

  answered(): void {
    this.#next.abort();
    this.#next = new AbortController();
  }

  /** Whether somebody was answered before the time was over. */
  async wait(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
    const next = this.#next.signal;
    await sleep(clock, ms, AbortSignal.any([next, signal]));
    return next.aborted;
  }
}
