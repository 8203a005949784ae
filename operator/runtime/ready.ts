import type { Key } from './kube-object.ts';

/** Ready keys with the time since when: each owner's in the order of their arrival, and the owners in turn. */
export class ReadyKeys {
  readonly #ownerOf: (key: Key) => string;
  /** Owners without keys are not in it. */
  readonly #turns = new Map<string, Map<Key, number>>();
  /** The owner at the time the key was added, since its object may be gone by now. */
  readonly #owners = new Map<Key, string>();

  constructor(ownerOf: (key: Key) => string) {
    this.#ownerOf = ownerOf;
  }

  get size(): number {
    return this.#owners.size;
  }

  /** Since when the key is ready; undefined if it is not. */
  since(key: Key): number | undefined {
    return this.#turns.get(this.#owners.get(key) ?? '')?.get(key);
  }

  add(key: Key, since: number): void {
    const owner = this.#ownerOf(key);
    this.#owners.set(key, owner);
    const keys = this.#turns.get(owner);
    if (keys) keys.set(key, since);
    else this.#turns.set(owner, new Map([[key, since]]));
  }

  delete(key: Key): void {
    const owner = this.#owners.get(key);
    if (owner === undefined) return;
    this.#owners.delete(key);
    const keys = this.#turns.get(owner);
    keys?.delete(key);
    if (keys?.size === 0) this.#turns.delete(owner);
  }

  /** Takes the first key of the first owner that `mayHave` permits; that owner is then the last in turn. */
  take(mayHave: (owner: string) => boolean): Ready | undefined {
    for (const [owner, keys] of this.#turns) {
      const [first] = keys;
      if (first === undefined || !mayHave(owner)) continue;
      const [key, since] = first;
      this.delete(key);
      if (this.#turns.delete(owner)) this.#turns.set(owner, keys);
      return { key, since, owner };
    }
    return undefined;
  }
}

interface Ready {
  readonly key: Key;
  readonly since: number;
  readonly owner: string;
}
