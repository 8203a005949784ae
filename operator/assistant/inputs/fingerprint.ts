import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import type { Secret } from '@space/contracts/secret';

/** Makes of some work one that is done once at a time, in the order of the calls. */
export function oneByOne<Args extends readonly unknown[], T>(
  work: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (...args) => {
    const next = last.then(() => work(...args));
    last = next.catch(() => undefined);
    return next;
  };
}

/**
 * So few bytes that millions of guesses share the fingerprint of a value: whoever reads a fingerprint cannot confirm a
 * guess. One pair of different values in 16 million is taken for equal, and then the new value is not sealed.
 */
const BYTES = 3;
const SALT_BYTES = 16;
const MOST_COMPARED = 10_000;

/**
 * Makes and compares salted fingerprints, which distinguish values from sealed ones. Testing one guess takes about
 * 50 ms of a processor.
 */
export class Fingerprints {
  /** Whoever causes many derivations takes one processor and one thread at most. */
  readonly #derive = oneByOne(promisify<string, Buffer, number, Buffer>(scrypt));
  /**
   * Results of comparisons by fingerprint and by where the value was read, so that a Secret which was written costs one
   * derivation and not one in each reconcile. Nothing in it is derived from a value.
   */
  readonly #compared = new Map<string, boolean>();
  readonly #random: (bytes: number) => Buffer;

  constructor(random: (bytes: number) => Buffer = randomBytes) {
    this.#random = random;
  }

  async of(value: Secret): Promise<string> {
    return this.#with(value, this.#random(SALT_BYTES));
  }

  /**
   * Whether a value certainly differs from the one with this fingerprint. `place` is where the value was read, which
   * never has another value.
   */
  async differs(fingerprint: string, value: Secret, place: string): Promise<boolean> {
    const comparison = `${fingerprint} ${place}`;
    const known = this.#compared.get(comparison);
    if (known !== undefined) return known;
    const [salt = ''] = fingerprint.split('.', 1);
    const result = (await this.#with(value, Buffer.from(salt, 'base64url'))) !== fingerprint;
    if (this.#compared.size >= MOST_COMPARED) this.#compared.clear();
    this.#compared.set(comparison, result);
    return result;
  }

  async #with(value: Secret, salt: Buffer): Promise<string> {
    const bits = await this.#derive(value.reveal(), salt, BYTES);
    return `${salt.toString('base64url')}.${bits.toString('base64url')}`;
  }
}
