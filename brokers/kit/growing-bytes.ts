import { free } from './own-memory.ts';

/** The size of the first allocation. */
const FIRST_BYTES = 4 * 1024;

/**
 * Collects bytes in one allocation of at most twice their size. If each part were kept, parts of one byte would each be
 * an object of about a hundred bytes.
 */
export class GrowingBytes {
  readonly #most: number;
  #memory = Buffer.alloc(0);
  #used = 0;

  /** `most`: the most bytes that it holds. */
  constructor(most: number) {
    this.#most = most;
  }

  /** The bytes of memory that are allocated. */
  get allocated(): number {
    return this.#memory.length;
  }

  /** Copies one more part; returns false when it would exceed the bound. */
  append(part: Uint8Array): boolean {
    const wanted = this.#used + part.length;
    if (wanted > this.#most) return false;
    if (wanted > this.#memory.length) {
      const larger = Math.min(this.#most, Math.max(wanted, 2 * this.#memory.length, FIRST_BYTES));
      const memory = Buffer.allocUnsafeSlow(larger);
      this.#memory.copy(memory, 0, 0, this.#used);
      free(this.#memory);
      this.#memory = memory;
    }
    this.#memory.set(part, this.#used);
    this.#used = wanted;
    return true;
  }

  /** All parts so far; they are valid until the next one comes, or they are freed. */
  bytes(): Buffer {
    return this.#memory.subarray(0, this.#used);
  }

  /** Gives the memory back at once. */
  free(): void {
    free(this.#memory);
    this.#memory = Buffer.alloc(0);
    this.#used = 0;
  }
}
