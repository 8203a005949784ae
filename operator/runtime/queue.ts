import type { Clock } from './clock.ts';
import type { Key } from './kube-object.ts';
import { ReadyKeys } from './ready.ts';

/** Live changes have priority over keys of an initial list or a sweep. */
export type Priority = 'live' | 'low';

export interface QueueObserver {
  added?(key: Key): void;
  taken?(key: Key, waitedMs: number): void;
  done?(key: Key, workedMs: number): void;
  retried?(key: Key): void;
}

export interface QueueOptions {
  readonly clock: Clock;
  readonly firstRetryMs?: number;
  readonly longestRetryMs?: number;
  /** The most low-priority keys that run at once, so that live ones find a worker and a responsive server. */
  readonly lowAtOnce?: number;
  /**
   * After this many milliseconds a low-priority key no longer counts against `lowAtOnce`: it waits for something other
   * than the API server.
   */
  readonly lowForMs?: number;
  /** The owner of a key. Owners take turns, and no owner takes the last free workers from the others. */
  readonly ownerOf?: (key: Key) => string | undefined;
  readonly observer?: QueueObserver;
}

/** The owner of keys without one. */
const NOBODY = '';

/** A key that is being worked on. */
interface Run {
  readonly since: number;
  readonly priority: Priority;
  readonly owner: string;
  readonly freeSlot: () => void;
}

/** A key that is added later. */
interface Waiting {
  readonly at: number;
  priority: Priority;
  readonly cancel: () => void;
}

/**
 * A queue of keys to reconcile. A key is ready only once however often it was added, is never with two workers, and
 * becomes ready again if it was added while it was worked on. Of several delayed adds the earliest time counts.
 */
export class Queue {
  readonly #clock: Clock;
  readonly #options: QueueOptions;
  readonly #ready: Readonly<Record<Priority, ReadyKeys>>;
  /** How many workers each owner has. */
  readonly #held = new Map<string, number>();
  readonly #processing = new Map<Key, Run>();
  readonly #again = new Map<Key, Priority>();
  /** Each has a timer of its own: to look through all of them when one is due would cost more the more there are. */
  readonly #waiting = new Map<Key, Waiting>();
  readonly #failures = new Map<Key, number>();
  readonly #takers: ((key: Key | undefined) => void)[] = [];
  #lowBegun = 0;
  #closed = false;

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#clock = options.clock;
    const ownerOf = (key: Key) => options.ownerOf?.(key) ?? NOBODY;
    this.#ready = { live: new ReadyKeys(ownerOf), low: new ReadyKeys(ownerOf) };
  }

  /** The number of ready keys. */
  get depth(): number {
    return this.#ready.live.size + this.#ready.low.size;
  }

  /** How long the longest-running key has been worked on, in milliseconds. */
  get longestRunMs(): number {
    return Math.max(0, ...[...this.#processing.values()].map(({ since }) => this.#clock.now() - since));
  }

  /** The priority of a key that is being worked on; undefined if it is not. */
  running(key: Key): Priority | undefined {
    return this.#processing.get(key)?.priority;
  }

  add(key: Key, priority: Priority = 'live'): void {
    if (this.#closed) return;
    const started = this.#processing.has(key);
    if (started) {
      if (this.#again.get(key) !== 'live') this.#again.set(key, priority);
      return;
    }
    if (this.#ready.live.since(key) !== undefined) return;
    const since = this.#ready.low.since(key);
    if (since !== undefined && priority === 'low') return;
    this.#ready.low.delete(key);
    this.#ready[priority].add(key, since ?? this.#clock.now());
    if (since === undefined) this.#options.observer?.added?.(key);
    this.#serve();
  }

  addAfter(key: Key, ms: number, priority: Priority = 'live'): void {
    if (this.#closed) return;
    if (ms <= 0) {
      this.add(key, priority);
      return;
    }
    const at = this.#clock.now() + ms;
    const already = this.#waiting.get(key);
    const urgent = already?.priority === 'live' ? 'live' : priority;
    if (already && already.at <= at) {
      already.priority = urgent;
      return;
    }
    already?.cancel();
    this.#waiting.set(key, {
      at,
      priority: urgent,
      cancel: this.#clock.after(ms, () => this.#due(key)),
    });
  }

  /**
   * Adds the key after a wait that doubles with each call until `forget`. A key keeps the priority with which it
   * failed.
   */
  addRateLimited(key: Key, atLeastMs = 0): void {
    const { firstRetryMs = 5, longestRetryMs = 60_000 } = this.#options;
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.#options.observer?.retried?.(key);
    this.addAfter(
      key,
      Math.max(atLeastMs, Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures, 30))),
      this.running(key),
    );
  }

  forget(key: Key): void {
    this.#failures.delete(key);
  }

  /** The next key, or `undefined` once the queue is closed. Every key taken must be given to `done`. */
  take(): Promise<Key | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#takers.push(resolve);
      this.#serve();
    });
  }

  done(key: Key): void {
    const run = this.#processing.get(key);
    if (run === undefined) throw new Error(`${key} was not being worked on`);
    this.#processing.delete(key);
    run.freeSlot();
    this.#giveBack(run.owner);
    this.#options.observer?.done?.(key, this.#clock.now() - run.since);
    const again = this.#again.get(key);
    this.#again.delete(key);
    if (again) this.add(key, again);
    this.#serve();
  }

  /** Hands out no more keys; those that are being worked on may still end. */
  close(): void {
    this.#closed = true;
    for (const { cancel } of this.#waiting.values()) cancel();
    this.#waiting.clear();
    for (const taker of this.#takers.splice(0)) taker(undefined);
  }

  #serve(): void {
    while (this.#takers.length > 0) {
      const next = this.#next();
      if (!next) return;
      const { key, since, owner, priority } = next;
      const now = this.#clock.now();
      const freeSlot = priority === 'low' ? this.#beginLow() : () => {};
      this.#processing.set(key, { since: now, priority, owner, freeSlot });
      this.#held.set(owner, (this.#held.get(owner) ?? 0) + 1);
      this.#options.observer?.taken?.(key, now - since);
      this.#takers.shift()?.(key);
    }
  }

  #next() {
    const { lowAtOnce = Number.POSITIVE_INFINITY } = this.#options;
    const mayHave = (owner: string) => this.#mayHave(owner);
    const live = this.#ready.live.take(mayHave);
    if (live) return { ...live, priority: 'live' as const };
    const low = this.#lowBegun < lowAtOnce ? this.#ready.low.take(mayHave) : undefined;
    return low && { ...low, priority: 'low' as const };
  }

  /** Leaves workers for owners that come later, however long the keys of others run. */
  #mayHave(owner: string): boolean {
    const held = this.#held.get(owner) ?? 0;
    return owner === NOBODY || held === 0 || held < this.#takers.length;
  }

  #giveBack(owner: string): void {
    const held = (this.#held.get(owner) ?? 0) - 1;
    if (held > 0) this.#held.set(owner, held);
    else this.#held.delete(owner);
  }

  /** Counts a low-priority key as running. The returned function ends that; it may be called more than once. */
  #beginLow(): () => void {
    const { lowForMs = 2_000 } = this.#options;
    this.#lowBegun += 1;
    let cancel: (() => void) | undefined = this.#clock.after(lowForMs, () => {
      freeSlot();
      this.#serve();
    });
    const freeSlot = () => {
      if (!cancel) return;
      cancel();
      cancel = undefined;
      this.#lowBegun -= 1;
    };
    return freeSlot;
  }

  #due(key: Key): void {
    const { priority } = this.#waiting.get(key) ?? {};
    this.#waiting.delete(key);
    this.add(key, priority);
  }
}
