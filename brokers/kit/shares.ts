import { ServiceError } from './errors.ts';

export interface ShareOptions {
  /** The number of slots. */
  readonly total: number;
  /** Slots that one key may hold, fewer than all, so that no key can take what the others need. */
  readonly perKey: number;
  /**
   * The share of the free slots that a key may come to have, so that later keys always find some: with a quarter, each
   * key takes at most a fifth of the slots that it found free. A key's first slot needs only one free slot.
   */
  readonly ofFree?: number;
  /** How many callers may wait in all; none by default. */
  readonly queued?: number;
  /** How many callers of one key may wait; by default in proportion to its slots. */
  readonly queuedPerKey?: number;
  /** The longest wait, in milliseconds. */
  readonly waitMs?: number;
}

/** Gives a slot back; a second call does nothing. */
export type GiveBack = () => void;

/** Why no slot was given: the key has its share, all slots are taken, or the wait was too long. */
export type ShareRefusal = 'share' | 'full' | 'timeout';

interface Waiter {
  readonly admit: () => void;
}

interface Holder {
  held: number;
  readonly waiting: Set<Waiter>;
}

/**
 * The slots of one shared resource (connections, streams, parsers), of which one key (a Capsule, an address) may hold at
 * most its share. A caller without a slot waits in a bounded queue of its key; a slot that becomes free goes to the key
 * with the fewest, and of several to the next one in turn, so that a key with a long queue delays its own callers and no
 * others.
 */
export class SharedSlots {
  readonly #total: number;
  readonly #perKey: number;
  readonly #ofFree: number;
  readonly #queued: number;
  readonly #queuedPerKey: number;
  readonly #waitMs: number;
  readonly #onRefusal: (reason: ShareRefusal) => void;
  readonly #holders = new Map<string, Holder>();
  /** Keys with waiting callers, in the order of their turns. */
  readonly #turns = new Set<string>();
  /** The last two keys without slots and callers, and since when, the later one first. */
  #left: readonly { readonly key: string; readonly at: number }[] = [];
  #taken = 0;
  #waiting = 0;
  #quietSince = performance.now();

  /** `onRefusal` is called for each refusal. */
  constructor(options: ShareOptions, onRefusal: (reason: ShareRefusal) => void = () => undefined) {
    const { total, perKey, ofFree = Number.POSITIVE_INFINITY, queued = 0, waitMs = 10_000 } = options;
    if (perKey < 1 || perKey > total) throw new RangeError('a share is at least one slot and at most all');
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

  /** Milliseconds since a slot was last in use. */
  quietFor(): number {
    return this.#taken > 0 ? 0 : performance.now() - this.#quietSince;
  }

  /** Whether a key other than this one has a slot or waits for one, or did in the last so many milliseconds. */
  hasOther(key: string, withinMs = 0): boolean {
    if (this.#holders.size > (this.#holders.has(key) ? 1 : 0)) return true;
    const last = this.#left.find((one) => one.key !== key);
    return last !== undefined && performance.now() - last.at < withinMs;
  }

  /** The fewest slots that a waiting key holds; undefined while none waits. */
  get leastOfWaiting(): number | undefined {
    let least: number | undefined;
    for (const key of this.#turns) least = Math.min(least ?? Number.POSITIVE_INFINITY, this.heldBy(key));
    return least;
  }

  /** The number of slots that the key holds. */
  heldBy(key: string): number {
    return this.#holders.get(key)?.held ?? 0;
  }

  /** Takes a slot at once, or none; never overtakes a waiting caller of the same key. */
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
   * Takes a slot, and waits for one if the queue has room. @throws ServiceError `unavailable` with a time to come back,
   * if there is neither a slot nor room in the queue @throws the signal's reason, if it aborts first
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

  /** While slots are free, only the key's own share can be the reason. */
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
      this.#quietSince = performance.now();
      // Whoever has begun to wait while the key had this slot comes before it.
      if (this.#turns.delete(key)) this.#turns.add(key);
      this.#forget(key, holder);
      while (this.#admitNext());
    };
  }

  /**
   * Gives a slot to the first key in turn of those with the fewest that may have one more, and makes that key the last.
   * False if there is none.
   */
  #admitNext(): boolean {
    let next: { readonly key: string; readonly holder: Holder } | undefined;
    for (const key of this.#turns) {
      const holder = this.#holders.get(key);
      if (holder === undefined || !this.#isFree(holder)) continue;
      if (next === undefined || holder.held < next.holder.held) next = { key, holder };
      if (holder.held === 0) break;
    }
    const [waiter] = next?.holder.waiting ?? [];
    if (next === undefined || waiter === undefined) return false;
    this.#turns.delete(next.key);
    this.#turns.add(next.key);
    waiter.admit();
    return true;
  }

  #forget(key: string, holder: Holder): void {
    if (holder.held > 0 || holder.waiting.size > 0) return;
    this.#holders.delete(key);
    this.#left = [{ key, at: performance.now() }, ...this.#left.filter((one) => one.key !== key).slice(0, 1)];
  }

  #refuse(reason: ShareRefusal): ServiceError {
    this.#onRefusal(reason);
    return new ServiceError('unavailable', `no slot: ${reason}`, { retryAfter: 1 });
  }
}
