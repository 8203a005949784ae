import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import type { Secret } from '@space/contracts/secret';

const derive = promisify<string, Buffer, number, Buffer>(scrypt);

/**
 * So few that millions of guesses have those of a value: whoever reads a fingerprint learns of none that it is right. Of
 * two values that differ, one pair in 16 million is taken for the same, and then nothing is handed over.
 */
const BYTES = 3;

/** What tells a value from the one that is sealed, with a salt of its own; to try a guess takes a processor some 50 ms. */
export async function fingerprintOf(value: Secret, salt = randomBytes(16)): Promise<string> {
  const bits = await derive(value.reveal(), salt, BYTES);
  return `${salt.toString('base64url')}.${bits.toString('base64url')}`;
}

/** Whether a value is for certain another than the one that has this fingerprint. */
export async function differs(fingerprint: string, value: Secret): Promise<boolean> {
  const [salt = ''] = fingerprint.split('.', 1);
  return (await fingerprintOf(value, Buffer.from(salt, 'base64url'))) !== fingerprint;
}
