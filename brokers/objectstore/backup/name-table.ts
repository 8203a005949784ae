/** The part of a name that is kept, in words of 32 bits. Names are keyed hashes, so no two have these 128 bits in common. */
const WORDS = 4;
const LEAST_SLOTS = 1024;
const MOST_FULL = 0.75;

/**
 * A map from names, the hexadecimal keyed hashes of `Vault.nameOf`, to numbers, each with a mark. It takes some 60 bytes
 * a name, where a `Map` takes several hundred: a run has a name for each object of the Space.
 */
export class NameTable {
  #slots = new Slots(LEAST_SLOTS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  set(name: string, value: number): void {
    if (this.#size >= this.#slots.count * MOST_FULL) this.#grow();
    const words = wordsOf(name);
    const at = this.#slots.find(words);
    if (this.#slots.isFree(at)) this.#size += 1;
    this.#slots.fill(at, words, value);
  }

  get(name: string): number | undefined {
    const at = this.#slots.find(wordsOf(name));
    return this.#slots.isFree(at) ? undefined : this.#slots.values[at];
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  /** Marks a name that is in the table; returns whether it was not marked before. */
  mark(name: string): boolean {
    return this.#changeMark(name, 1);
  }

  /** Takes the mark away; returns whether there was one. */
  unmark(name: string): boolean {
    return this.#changeMark(name, 0);
  }

  #changeMark(name: string, mark: 0 | 1): boolean {
    const at = this.#slots.find(wordsOf(name));
    if (this.#slots.isFree(at) || this.#slots.marks[at] === mark) return false;
    this.#slots.marks[at] = mark;
    return true;
  }

  #grow(): void {
    const from = this.#slots;
    this.#slots = new Slots(from.count * 2);
    for (let slot = 0; slot < from.count; slot += 1) {
      if (from.isFree(slot)) continue;
      const words = from.names.subarray(slot * WORDS, (slot + 1) * WORDS);
      const at = this.#slots.find(words);
      this.#slots.fill(at, words, from.values[slot] ?? Number.NaN);
      this.#slots.marks[at] = from.marks[slot] ?? 0;
    }
  }
}

/** Open addressing: a name lies in the first free slot from the one that its first word says. */
class Slots {
  readonly count: number;
  readonly names: Uint32Array;
  /** NaN where the slot is free. */
  readonly values: Float64Array;
  readonly marks: Uint8Array;

  /** `count` is a power of two. */
  constructor(count: number) {
    this.count = count;
    this.names = new Uint32Array(count * WORDS);
    this.values = new Float64Array(count).fill(Number.NaN);
    this.marks = new Uint8Array(count);
  }

  isFree(at: number): boolean {
    return Number.isNaN(this.values[at]);
  }

  /** The slot of a name, or the free one where it would lie. */
  find(words: Uint32Array): number {
    for (let at = (words[0] ?? 0) & (this.count - 1); ; at = (at + 1) & (this.count - 1))
      if (this.isFree(at) || words.every((word, i) => this.names[at * WORDS + i] === word)) return at;
  }

  fill(at: number, words: Uint32Array, value: number): void {
    this.names.set(words, at * WORDS);
    this.values[at] = value;
  }
}

function wordsOf(name: string): Uint32Array {
  const words = new Uint32Array(WORDS);
  for (let i = 0; i < WORDS; i += 1) words[i] = Number.parseInt(name.slice(i * 8, i * 8 + 8), 16);
  return words;
}
