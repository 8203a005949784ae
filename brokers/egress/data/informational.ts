import { Problem } from '../core/problem.ts';

const MOST = 32;

/** Bounds informational responses (1xx, such as 103): a host may send a few, within the time that it has for an answer. */
export class InformationalResponses {
  readonly #answerMs: number;
  #count = 0;
  #firstAt = 0;

  constructor(answerMs: number) {
    this.#answerMs = answerMs;
  }

  /** Counts one more. @throws Problem `upstream_failed`, `upstream_timeout` */
  count(): void {
    if (this.#count === 0) this.#firstAt = performance.now();
    this.#count += 1;
    if (this.#count > MOST) throw new Problem('upstream_failed');
    if (performance.now() - this.#firstAt > this.#answerMs) throw new Problem('upstream_timeout');
  }
}
