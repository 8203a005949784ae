/** A token bucket for each key. A bucket that is full again is forgotten. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor(options: { perSecond: number; burst: number; now?: () => number }) {
    this.#perSecond = options.perSecond;
    this.#burst = options.burst;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Seconds until there is a token; undefined if there is one. Takes none. */
  wait(key: string): number | undefined {
    const bucket = this.#buckets.get(key);
    return bucket === undefined ? undefined : this.#secondsTo(this.#tokens(bucket, this.#now()));
  }

  /** Takes one token; without one, returns the seconds until there is. */
  take(key: string): number | undefined {
    const now = this.#now();
    if (this.#buckets.size > 10_000) this.#forget(now);
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { tokens: this.#burst, at: now };
      this.#buckets.set(key, bucket);
    }
    const tokens = this.#tokens(bucket, now);
    bucket.tokens = tokens >= 1 ? tokens - 1 : tokens;
    bucket.at = now;
    return this.#secondsTo(tokens);
  }

  #secondsTo(tokens: number): number | undefined {
    return tokens >= 1 ? undefined : Math.max(1, Math.ceil((1 - tokens) / this.#perSecond));
  }

  #tokens(bucket: { tokens: number; at: number }, now: number): number {
    return Math.min(this.#burst, bucket.tokens + ((now - bucket.at) / 1000) * this.#perSecond);
  }

  #forget(now: number): void {
    for (const [key, bucket] of this.#buckets) {
      if (this.#tokens(bucket, now) >= this.#burst) this.#buckets.delete(key);
    }
    // With very many addresses it is better to lose their counts than to run out of memory.
    if (this.#buckets.size > 10_000) this.#buckets.clear();
  }
}

/** Runs at most `active` pieces of work at once and queues at most `queued` in order; more are refused. */
export class ConcurrencyLimit {
  readonly #active: number;
  readonly #queued: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(options: { active: number; queued: number }) {
    this.#active = options.active;
    this.#queued = options.queued;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs the work in its turn; `undefined` if the queue is full. */
  async run<T>(work: () => Promise<T>): Promise<{ value: T } | undefined> {
    if (this.#running >= this.#active) {
      if (this.#waiting.length >= this.#queued) return undefined;
      // Work that ends hands its slot over, so `#running` does not change here.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else {
      this.#running += 1;
    }
    try {
      return { value: await work() };
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}
