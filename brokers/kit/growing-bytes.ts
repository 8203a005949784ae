/** Of which the first piece of memory is. */
const FIRST_BYTES = 4 * 1024;

/**
 * What comes in parts, in one piece of memory of at most twice as many bytes. Kept as they come, parts of one byte each
 * would be objects of some hundred.
 */
export class GrowingBytes {
  readonly #most: number;
  #memory = Buffer.alloc(0);
  #used = 0;

  /** `most`: bytes that it ever holds. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Bytes of memory that it takes. */
  get held(): number {
    return this.#memory.length;
  }

  /** Copies one more part; false when there is no room for it. */
  append(part: Uint8Array): boolean {
    const wanted = this.#used + part.length;
    if (wanted > this.#most) return false;
    if (wanted > this.#memory.length) {
      const larger = Math.min(this.#most, Math.max(wanted, 2 * this.#memory.length, FIRST_BYTES));
      const memory = Buffer.allocUnsafeSlow(larger);
      this.#memory.copy(memory, 0, 0, this.#used);
      this.#memory = memory;
    }
    this.#memory.set(part, this.#used);
    this.#used = wanted;
    return true;
  }

  /** All parts so far. */
  bytes(): Buffer {
    return this.#memory.subarray(0, this.#used);
  }
}
