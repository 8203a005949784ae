/** What is in a bag knows where; -1 is nowhere. It can be in one at a time. */
export interface Bagged {
  at: number;
}

/**
 * What comes and goes with every request. Not a Set: that makes its table anew after every few, and an old table that
 * has outlived two collections of young objects keeps the next one with all that is in it, and so on, until the whole
 * heap is collected.
 */
export class Bag<One extends Bagged> {
  readonly #all: One[] = [];

  add(one: One): void {
    one.at = this.#all.push(one) - 1;
  }

  get size(): number {
    return this.#all.length;
  }

  /** False, and nothing else, for what is not in it any more. */
  remove(one: One): boolean {
    if (one.at === -1) return false;
    const last = this.#all.pop();
    if (last !== undefined && last !== one) {
      this.#all[one.at] = last;
      last.at = one.at;
    }
    one.at = -1;
    return true;
  }

  /** As they are now, whatever is added or removed meanwhile. */
  all(): readonly One[] {
    return [...this.#all];
  }
}
