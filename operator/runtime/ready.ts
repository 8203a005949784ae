import type { Key } from './kube-object.ts';

/** Ready keys, with the time since when: in the order in which they came for each owner, and the owners in turn. */
export class ReadyKeys {
  readonly #ownerOf: (key: Key) => string;
  /** An owner without keys is not in it. */
  readonly #turns = new Map<string, Map<Key, number>>();
  /** The owner as it was when the key came: by now its object may be gone. */
  readonly #owners = new Map<Key, string>();

  constructor(ownerOf: (key: Key) => string) {
    this.#ownerOf = ownerOf;
  }

  get size(): number {
    return this.#owners.size;
  }

  /** Since when the key is ready; undefined when it is not. */
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

  /** Takes the first key of the first owner that may have one more; that owner's next turn comes after all others'. */
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
