import type { Problem } from '../core/problem.ts';

/** Ends a request before its time: once, and for one reason, which whatever works on the request is told. */
export class Ending {
  #reason: Problem | undefined;
  #listener: ((reason: Problem) => void) | undefined;
  #controller: AbortController | undefined;

  get reason(): Problem | undefined {
    return this.#reason;
  }

  /** The same as an AbortSignal, made on demand: most requests never need one, and it is expensive. */
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

  /** Sets the one listener, in place of an earlier one. @throws the reason when the request has ended already */
  onEnd(listener: (reason: Problem) => void): void {
    if (this.#reason !== undefined) throw this.#reason;
    this.#listener = listener;
  }
}
