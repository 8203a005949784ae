/** Answers that may be believed for a while: whoever asks the same meanwhile gets the one answer, given or on its way. */
export class Kept<T> {
  readonly #known = new Map<string, { readonly answer: Promise<T>; readonly askedAt: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** An answer that was asked for within that time, or else a new one. A failure is kept for nobody after it. */
  get(key: string, withinMs: number, ask: () => Promise<T>): Promise<T> {
    const known = this.#known.get(key);
    const askedAt = this.#now();
    if (known && askedAt - known.askedAt < withinMs) return known.answer;
    const asked = { answer: ask(), askedAt };
    this.#known.set(key, asked);
    asked.answer.catch(() => {
      if (this.#known.get(key) === asked) this.#known.delete(key);
    });
    return asked.answer;
  }

  forget(key: string): void {
    this.#known.delete(key);
  }
}
