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

/** Whoever causes many derivations takes one processor and one thread at most. */
const derive = oneByOne(promisify<string, Buffer, number, Buffer>(scrypt));

/**
 * So few bytes that millions of guesses share the fingerprint of a value: whoever reads a fingerprint cannot confirm a
 * guess. One pair of different values in 16 million is taken for equal, and then the new value is not sealed.
 */
const BYTES = 3;

/**
 * A salted fingerprint that distinguishes a value from the sealed one. Testing one guess takes about 50 ms of a
 * processor.
 */
export async function fingerprintOf(value: Secret, salt = randomBytes(16)): Promise<string> {
  const bits = await derive(value.reveal(), salt, BYTES);
  return `${salt.toString('base64url')}.${bits.toString('base64url')}`;
}

/** Whether a value certainly differs from the one with this fingerprint. */
export async function differs(fingerprint: string, value: Secret): Promise<boolean> {
  const [salt = ''] = fingerprint.split('.', 1);
  return (await fingerprintOf(value, Buffer.from(salt, 'base64url'))) !== fingerprint;
}
