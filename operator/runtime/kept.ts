/** Asks with a signal that aborts when nobody waits for the answer any more. */
type Ask<T> = (signal: AbortSignal) => Promise<T>;

interface Asked<T> {
  readonly answer: Promise<T>;
  readonly askedAt: number;
  readonly ending: AbortController;
  waiting: number;
}

/** A cache of answers with an age limit. Callers who ask the same at the same time share one request. */
export class Kept<T> {
  readonly #known = new Map<string, Asked<T>>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * An answer that was requested at most `withinMs` ago, or else a new one. Failures are not cached. A caller that
   * gives up does not affect the others; the last one to give up aborts the request and waits until it has ended.
   */
  async get(key: string, withinMs: number, ask: Ask<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    const known = this.#known.get(key);
    const isFresh = known !== undefined && this.#now() - known.askedAt < withinMs;
    const asked = isFresh ? known : this.#begin(key, ask);
    asked.waiting += 1;
    const { promise: left, reject: leave } = Promise.withResolvers<never>();
    const giveUp = () => {
      if (asked.waiting > 1) return leave(signal.reason);
      this.#drop(key, asked);
      asked.ending.abort(signal.reason);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await Promise.race([asked.answer, left]);
    } finally {
      signal.removeEventListener('abort', giveUp);
      asked.waiting -= 1;
    }
  }

  forget(key: string): void {
    this.#known.delete(key);
  }

  #begin(key: string, ask: Ask<T>): Asked<T> {
    const [askedAt, ending] = [this.#now(), new AbortController()];
    const asked = { answer: ask(ending.signal), askedAt, ending, waiting: 0 };
    this.#known.set(key, asked);
    asked.answer.catch(() => this.#drop(key, asked));
    return asked;
  }

  #drop(key: string, asked: Asked<T>): void {
    if (this.#known.get(key) === asked) this.#known.delete(key);
  }
}
