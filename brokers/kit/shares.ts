import { ServiceError } from './errors.ts';

export interface ShareOptions {
  /** Places in all. */
  readonly total: number;
  /** Places that one key may hold, fewer than all, so that no key can take what the others need. */
  readonly perKey: number;
  /**
   * What part of the free places a key may come to hold, so that whoever comes later finds some, however many came
   * before: with a quarter, each takes at most a fifth of what it found. The first place is anybody's while there is one.
   */
  readonly ofFree?: number;
  /** How many may wait in all; without it nobody waits. */
  readonly queued?: number;
  /** How many of one key may wait; a key's share of the queue, in the proportion of its places, unless it is named. */
  readonly queuedPerKey?: number;
  /** The longest that anybody waits, in milliseconds. */
  readonly waitMs?: number;
}

/** Gives a place back; a second call does nothing. */
export type GiveBack = () => void;

/** Why nobody was let in: the key has all that it may have now, or all places are taken, or the wait was over. */
export type ShareRefusal = 'share' | 'full' | 'timeout';

interface Waiter {
  readonly admit: () => void;
}

interface Holder {
  held: number;
  readonly waiting: Set<Waiter>;
}

/**
 * The places of one shared resource (connections, streams, parsers), of which one key (a Capsule, an address) may
 * hold at most its share. Who finds none waits in a bounded queue, each key in its own line; a place that becomes free
 * goes to the next key in turn, so a key with a long line delays its own callers and nobody else's.
 */
export class SharedPlaces {
  readonly #total: number;
  readonly #perKey: number;
  readonly #ofFree: number;
  readonly #queued: number;
  readonly #queuedPerKey: number;
  readonly #waitMs: number;
  readonly #onRefusal: (reason: ShareRefusal) => void;
  readonly #holders = new Map<string, Holder>();
  /** Keys with a line, in the order of their turns. */
  readonly #turns = new Set<string>();
  #taken = 0;
  #waiting = 0;

  /** `onRefusal` counts whoever was turned away. */
  constructor(options: ShareOptions, onRefusal: (reason: ShareRefusal) => void = () => undefined) {
    const { total, perKey, ofFree = Number.POSITIVE_INFINITY, queued = 0, waitMs = 10_000 } = options;
    if (perKey < 1 || perKey > total) throw new RangeError('a share is at least one place and at most all');
    this.#total = total;
    this.#perKey = perKey;
    this.#ofFree = ofFree;
    this.#queued = queued;
    this.#queuedPerKey = options.queuedPerKey ?? Math.ceil((queued * perKey) / total);
    this.#waitMs = waitMs;
    this.#onRefusal = onRefusal;
  }

  get taken(): number {
    return this.#taken;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Whether more than one key holds a place, or waits for one. */
  get isShared(): boolean {
    return this.#holders.size > 1;
  }

  /** Places that the poorest of those holds who wait; undefined while nobody waits. */
  get leastOfWaiting(): number | undefined {
    let least: number | undefined;
    for (const key of this.#turns) least = Math.min(least ?? Number.POSITIVE_INFINITY, this.heldBy(key));
    return least;
  }

  /** Places that the key holds. */
  heldBy(key: string): number {
    return this.#holders.get(key)?.held ?? 0;
  }

  /** Takes a place at once, or none; never overtakes a line of the same key. */
  tryTake(key: string): GiveBack | undefined {
    const holder = this.#holders.get(key);
    const free = this.#isFree(holder) && (holder?.waiting.size ?? 0) === 0;
    if (!free) {
      this.#onRefusal(this.#refusalOf(holder));
      return undefined;
    }
    return this.#hold(key);
  }

  /**
   * Takes a place, waiting for one where that is possible.
   *
   * @throws ServiceError `unavailable` with a time to come back, when there is no place or no room to wait in
   * @throws the signal's reason, when it is aborted first
   */
  async take(key: string, signal?: AbortSignal): Promise<GiveBack> {
    signal?.throwIfAborted();
    const holder = this.#holders.get(key) ?? { held: 0, waiting: new Set<Waiter>() };
    if (this.#isFree(holder) && holder.waiting.size === 0) return this.#hold(key);
    if (this.#waiting >= this.#queued || holder.waiting.size >= this.#queuedPerKey)
      throw this.#refuse(this.#refusalOf(holder));
    this.#holders.set(key, holder);
    return this.#wait(key, holder, signal);
  }

  #wait(key: string, holder: Holder, signal: AbortSignal | undefined): Promise<GiveBack> {
    const { promise, resolve, reject } = Promise.withResolvers<GiveBack>();
    const waiter: Waiter = {
      admit: () => {
        leave();
        resolve(this.#hold(key));
      },
    };
    const leave = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      holder.waiting.delete(waiter);
      this.#waiting -= 1;
      if (holder.waiting.size === 0) this.#turns.delete(key);
      this.#forget(key, holder);
    };
    const abort = () => {
      leave();
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      leave();
      reject(this.#refuse('timeout'));
    }, this.#waitMs);
    signal?.addEventListener('abort', abort, { once: true });
    holder.waiting.add(waiter);
    this.#turns.add(key);
    this.#waiting += 1;
    return promise;
  }

  #isFree(holder: Holder | undefined): boolean {
    const free = this.#total - this.#taken;
    const held = holder?.held ?? 0;
    return free > 0 && held < this.#perKey && (held === 0 || held < free * this.#ofFree);
  }

  /** What others could still have is kept from it by its own share alone. */
  #refusalOf(holder: Holder | undefined): ShareRefusal {
    const held = holder?.held ?? 0;
    return held >= this.#perKey || (held > 0 && this.#taken < this.#total) ? 'share' : 'full';
  }

  #hold(key: string): GiveBack {
    const holder = this.#holders.get(key) ?? { held: 0, waiting: new Set<Waiter>() };
    this.#holders.set(key, holder);
    holder.held += 1;
    this.#taken += 1;
    let back = false;
    return () => {
      if (back) return;
      back = true;
      holder.held -= 1;
      this.#taken -= 1;
      this.#forget(key, holder);
      while (this.#admitNext());
    };
  }

  /** The first key in turn that may hold one more; it goes to the end of the turns. Says whether there was one. */
  #admitNext(): boolean {
    for (const key of this.#turns) {
      const holder = this.#holders.get(key);
      const [waiter] = holder?.waiting ?? [];
      if (waiter === undefined || !this.#isFree(holder)) continue;
      this.#turns.delete(key);
      this.#turns.add(key);
      waiter.admit();
      return true;
    }
    return false;
  }

  #forget(key: string, holder: Holder): void {
    if (holder.held === 0 && holder.waiting.size === 0) this.#holders.delete(key);
  }

  #refuse(reason: ShareRefusal): ServiceError {
    this.#onRefusal(reason);
    return new ServiceError('unavailable', `no place: ${reason}`, { retryAfter: 1 });
  }
}
