import { Problem } from '../core/problem.ts';

const MOST = 32;

/** Answers that are none yet, such as 103: a few of them, within the time that a host has for an answer. */
export class Promises {
  readonly #answerMs: number;
  #count = 0;
  #first = 0;

  constructor(answerMs: number) {
    this.#answerMs = answerMs;
  }

  /** One more. @throws Problem `upstream_failed`, `upstream_timeout` */
  take(): void {
    if (this.#count === 0) this.#first = performance.now();
    this.#count += 1;
    if (this.#count > MOST) throw new Problem('upstream_failed');
    if (performance.now() - this.#first > this.#answerMs) throw new Problem('upstream_timeout');
  }
}
