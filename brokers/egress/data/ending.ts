import type { Problem } from '../core/problem.ts';

/** How a request may end before its time: once, for one reason, of which who works on it is told. */
export class Ending {
  #reason: Problem | undefined;
  #listener: ((reason: Problem) => void) | undefined;
  #controller: AbortController | undefined;

  get reason(): Problem | undefined {
    return this.#reason;
  }

  /** For what knows signals. Most requests never wait for such, and a signal is dear. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  end(reason: Problem): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    this.#listener?.(reason);
  }

  /** Tells one listener, in the place of the one before. @throws the reason when it has ended already */
  tell(listener: (reason: Problem) => void): void {
    if (this.#reason !== undefined) throw this.#reason;
    this.#listener = listener;
  }
}
