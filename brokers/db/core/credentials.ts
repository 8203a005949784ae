import { createHash, createHmac, pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';
import { lengthPrefixed, Secret } from '@space/broker-kit';
import type { Workload } from './names.ts';

const stretch = promisify(pbkdf2);
const ITERATIONS = 4096;

/** One key of the ring, and the public name under which rows refer to it. */
export interface DerivationKey {
  readonly id: string;
  readonly key: Secret<Buffer>;
}

export function derivationKey(bytes: Buffer): DerivationKey {
  const id = createHash('sha256').update('derivation-key-id/v1').update(bytes).digest('hex').slice(0, 16);
  return { id, key: new Secret(bytes) };
}

/** What distinguishes the passwords that a workload has had. */
export interface Edition {
  readonly generation: number;
  /** Random; empty for passwords that were issued before epochs existed. */
  readonly epoch: string;
}

/** A workload's password in one edition. It is derived, always with the same result, so that it need not be stored. */
export function passwordOf(
  key: DerivationKey,
  space: string,
  workload: Workload,
  { generation, epoch }: Edition,
): Secret<string> {
  const parts = ['password/v1', space, workload.capsule, workload.app, String(generation)];
  if (epoch !== '') parts.push(epoch);
  return new Secret(derive(key, parts).toString('base64url'));
}

/**
 * The SCRAM-SHA-256 verifier, which is all that PostgreSQL stores and sees of the password. The salt is derived, too,
 * so that setting the same password twice writes the same verifier.
 */
export async function scramVerifier(key: DerivationKey, password: Secret<string>): Promise<string> {
  const salt = derive(key, ['salt/v1', password.reveal()]).subarray(0, 16);
  // SASLprep changes nothing in base64url, so the password is used as it is.
  const salted = await stretch(password.reveal(), salt, ITERATIONS, 32, 'sha256');
  const stored = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64');
  const server = hmac(salted, 'Server Key').toString('base64');
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString('base64')}$${stored}:${server}`;
}

function derive(key: DerivationKey, parts: readonly string[]): Buffer {
  return createHmac('sha256', key.key.reveal()).update(lengthPrefixed(parts)).digest();
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

export interface IssuedAddress {
  readonly host: string;
  readonly port: number;
  readonly sslmode?: string | undefined;
  /** A path in the workload's file system, of characters that need no escaping in a query. */
  readonly sslrootcert?: string | undefined;
}

/** The URL of one database. */
export function databaseUrl(
  name: string,
  password: Secret<string>,
  { host, port, sslmode, sslrootcert }: IssuedAddress,
): string {
  const bracketed = host.includes(':') ? `[${host}]` : host;
  const root = sslrootcert === undefined ? '' : `&sslrootcert=${sslrootcert}`;
  const query = sslmode === undefined ? '' : `?sslmode=${sslmode}${root}`;
  return `postgresql://${name}:${password.reveal()}@${bracketed}:${port}/${name}${query}`;
}
