/** An item stores its index in the set; -1 means that it is in none. It can be in one set at a time. */
export interface Indexed {
  index: number;
}

/**
 * An unordered set with removal in constant time, for items that come and go with every request. A `Set` rebuilds its
 * table after every few changes; an old table that has survived two collections of young objects keeps the next one
 * alive with all of its items, until the whole heap is collected.
 */
export class IndexedSet<Item extends Indexed> {
  readonly #items: Item[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: Item): void {
    item.index = this.#items.push(item) - 1;
  }

  /** Removes the item; returns false if it is not in the set. */
  delete(item: Item): boolean {
    if (item.index === -1) return false;
    const last = this.#items.pop();
    if (last !== undefined && last !== item) {
      this.#items[item.index] = last;
      last.index = item.index;
    }
    item.index = -1;
    return true;
  }

  /** Copies the items, so that a loop over them may add and delete. */
  snapshot(): readonly Item[] {
    return [...this.#items];
  }
}
