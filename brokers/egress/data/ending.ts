import type { Problem } from '../core/problem.ts';

/** Ends a request early: once, for one reason, which all parts that work on the request are told. */
export class Ending {
  #reason: Problem | undefined;
  #listener: ((reason: Problem) => void) | undefined;
  #controller: AbortController | undefined;

  get reason(): Problem | undefined {
    return this.#reason;
  }

  /** The same as an AbortSignal, which is created on demand, since it is expensive and few requests need one. */
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

  /** Sets the only listener, replacing an earlier one. @throws the reason if the request has ended already */
  onEnd(listener: (reason: Problem) => void): void {
    if (this.#reason !== undefined) throw this.#reason;
    this.#listener = listener;
  }
}
