/** Asks with a signal that aborts once nobody waits for the answer any more. */
type Ask<T> = (signal: AbortSignal) => Promise<T>;

interface Asked<T> {
  readonly answer: Promise<T>;
  readonly askedAt: number;
  readonly ending: AbortController;
  waiting: number;
}

/** Answers that may be believed for a while: whoever asks the same meanwhile gets the one answer, given or on its way. */
export class Kept<T> {
  readonly #known = new Map<string, Asked<T>>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * An answer that was asked for within that time, or else a new one. A failure is kept for nobody after it. Who gives up
   * ends the wait of nobody else; the last one to give up ends the asking, and waits for that.
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
