import { type Key, type KubeObject, keyOf } from './kube-object.ts';

export type Indexers<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

/** The source of a change: a list, the watch, or the answer to a write of this process. */
type Origin = 'list' | 'watch' | 'own';

/** The argument of listeners: the object before, the object now (absent if deleted), and the source. */
export interface Change<T> {
  readonly key: Key;
  readonly before: T | undefined;
  readonly now: T | undefined;
  readonly origin: Origin;
}

/** Answers to writes are late by milliseconds, in which fewer objects than this are deleted. */
const MOST_TOMBSTONES = 1000;

/** The last known state of one kind, by key and by index. Readers must not change the objects. */
export class Store<T extends KubeObject> {
  readonly #objects = new Map<Key, T>();
  readonly #indexers: Indexers<T>;
  readonly #indexes = new Map<string, Map<string, Set<Key>>>();
  readonly #listeners: ((change: Change<T>) => void)[] = [];
  /** The versions at which objects were deleted, so that a late answer does not bring one back. */
  readonly #tombstones = new Map<Key, bigint>();
  /** The version of the last list: what it does not have was gone by then, or is only of a later version. */
  #listed = -1n;

  constructor(indexers: Indexers<T> = {}) {
    this.#indexers = indexers;
    for (const name of Object.keys(indexers)) this.#indexes.set(name, new Map());
  }

  get size(): number {
    return this.#objects.size;
  }

  get(key: Key): T | undefined {
    return this.#objects.get(key);
  }

  list(): T[] {
    return [...this.#objects.values()];
  }

  by(index: string, value: string): T[] {
    const keys = this.#indexes.get(index)?.get(value) ?? [];
    const found: T[] = [];
    for (const key of keys) {
      const object = this.#objects.get(key);
      if (object) found.push(object);
    }
    return found;
  }

  onChange(listener: (change: Change<T>) => void): void {
    this.#listeners.push(listener);
  }

  set(object: T, origin: Origin = 'watch'): void {
    const key = keyOf(object);
    const before = this.#objects.get(key);
    // Answers to own writes arrive here, too, and may be ahead of the watch.
    if (before && !isNewer(object, before)) return;
    if ((this.#tombstones.get(key) ?? -1n) >= versionOf(object)) return;
    if (origin !== 'list' && this.#listed >= versionOf(object)) return;
    this.#change(key, before, object, origin);
  }

  #change(key: Key, before: T | undefined, now: T | undefined, origin: Origin): void {
    this.#put(key, before, now);
    this.#tell({ key, before, now, origin });
  }

  /** Removes an object; `last` is its final state, if the server sent it. */
  delete(key: Key, last?: T, origin: Origin = 'watch'): void {
    const before = this.#objects.get(key);
    if (last) this.#addTombstone(key, versionOf(last));
    if (before) this.#change(key, before, undefined, origin);
  }

  /**
   * Makes the store equal to a list of this version; listeners hear only differences. `restored` says that the server's
   * storage was set back, so that smaller versions are the current ones.
   */
  replace(
    objects: readonly T[],
    { restored = false, version }: { readonly restored?: boolean; readonly version?: string } = {},
  ): void {
    if (version !== undefined) this.#listed = BigInt(version);
    const listed = new Set(objects.map(keyOf));
    for (const key of [...this.#objects.keys()]) if (!listed.has(key)) this.delete(key, undefined, 'list');
    if (restored) this.#tombstones.clear();
    for (const object of objects) {
      const key = keyOf(object);
      const before = this.#objects.get(key);
      if (restored && before && !isNewer(object, before) && versionOf(object) !== versionOf(before))
        this.#change(key, before, object, 'list');
      else this.set(object, 'list');
    }
  }

  #addTombstone(key: Key, version: bigint): void {
    this.#tombstones.delete(key);
    this.#tombstones.set(key, version);
    const [oldest] = this.#tombstones.keys();
    if (this.#tombstones.size > MOST_TOMBSTONES && oldest !== undefined) this.#tombstones.delete(oldest);
  }

  #put(key: Key, before: T | undefined, now: T | undefined): void {
    for (const [name, values] of Object.entries(this.#indexers)) {
      const index = this.#indexes.get(name);
      if (!index) continue;
      for (const value of before ? values(before) : []) {
        const keys = index.get(value);
        keys?.delete(key);
        if (keys?.size === 0) index.delete(value);
      }
      for (const value of now ? values(now) : []) {
        const keys = index.get(value) ?? new Set();
        keys.add(key);
        index.set(value, keys);
      }
    }
    if (now) this.#objects.set(key, now);
    else this.#objects.delete(key);
  }

  #tell(change: Change<T>): void {
    for (const listener of this.#listeners) listener(change);
  }
}

/** Later versions of an object are greater numbers (KEP-5504); an object with another UID is another one. */
function isNewer(object: KubeObject, than: KubeObject): boolean {
  return object.metadata.uid !== than.metadata.uid || versionOf(object) > versionOf(than);
}

function versionOf(object: KubeObject): bigint {
  return BigInt(object.metadata.resourceVersion ?? 0);
}
