import type { Clock } from './clock.ts';
import type { Key } from './kube-object.ts';
import { ReadyKeys } from './ready.ts';

/** Live changes go before what an initial list or a sweep brings. */
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
  /** Limits concurrent low-priority keys, so that a high-priority one finds a worker and a responsive server. */
  readonly lowAtOnce?: number;
  /** A low key that takes longer waits for something else than the server, and holds up no other any more. */
  readonly lowForMs?: number;
  /** Keys of one owner come in their owner's turn, and take no more workers than they leave to others. */
  readonly ownerOf?: (key: Key) => string | undefined;
  readonly observer?: QueueObserver;
}

/** Whose keys are that have no owner. */
const NOBODY = '';

/** A key that is being worked on. */
interface Run {
  readonly since: number;
  readonly priority: Priority;
  readonly owner: string;
  readonly freeSlot: () => void;
}

/**
 * Keys to work on. A key is ready once however often it was added, is never with two workers, and comes back once
 * when it was added while it was worked on. Delayed adds keep the earliest time.
 */
export class Queue {
  readonly #clock: Clock;
  readonly #options: QueueOptions;
  readonly #ready: Readonly<Record<Priority, ReadyKeys>>;
  /** How many workers keys of an owner have. */
  readonly #held = new Map<string, number>();
  readonly #processing = new Map<Key, Run>();
  readonly #again = new Map<Key, Priority>();
  readonly #waiting = new Map<Key, { at: number; priority: Priority }>();
  readonly #failures = new Map<Key, number>();
  readonly #takers: ((key: Key | undefined) => void)[] = [];
  #lowBegun = 0;
  #timer: { readonly at: number; readonly cancel: () => void } | undefined;
  #closed = false;

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#clock = options.clock;
    const ownerOf = (key: Key) => options.ownerOf?.(key) ?? NOBODY;
    this.#ready = { live: new ReadyKeys(ownerOf), low: new ReadyKeys(ownerOf) };
  }

  /** How many keys are ready. */
  get depth(): number {
    return this.#ready.live.size + this.#ready.low.size;
  }

  /** The time that the longest-running key has been worked on. */
  get longestRunMs(): number {
    return Math.max(0, ...[...this.#processing.values()].map(({ since }) => this.#clock.now() - since));
  }

  /** The priority with which a key is worked on; undefined when it is not. */
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
      this.#waiting.set(key, { at: already.at, priority: urgent });
      return;
    }
    this.#waiting.set(key, { at, priority: urgent });
    this.#arm(at);
  }

  /** Doubles the wait with each call until `forget`. What was low when it failed is so again. */
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

  /** Hands nothing out any more; what is being worked on may still end. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
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

  /** Who comes later finds workers, too, however long those of others are at work. */
  #mayHave(owner: string): boolean {
    const held = this.#held.get(owner) ?? 0;
    return owner === NOBODY || held === 0 || held < this.#takers.length;
  }

  #giveBack(owner: string): void {
    const held = (this.#held.get(owner) ?? 0) - 1;
    if (held > 0) this.#held.set(owner, held);
    else this.#held.delete(owner);
  }

  /** Takes the place of one that is low; what is given back makes room for another, once. */
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

  #arm(at: number): void {
    if (this.#timer && this.#timer.at <= at) return;
    this.#timer?.cancel();
    const wait = Math.max(0, at - this.#clock.now());
    this.#timer = { at, cancel: this.#clock.after(wait, () => this.#ring()) };
  }

  #ring(): void {
    this.#timer = undefined;
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const [key, { at, priority }] of [...this.#waiting]) {
      if (at <= now) {
        this.#waiting.delete(key);
        this.add(key, priority);
      } else next = Math.min(next, at);
    }
    if (Number.isFinite(next)) this.#arm(next);
  }
}
