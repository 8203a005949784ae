import { createSecretKey, hkdfSync } from 'node:crypto';
import { statSync } from 'node:fs';
import { parseStrictJson } from '../json.ts';
import { type Watched, watchFile } from '../watched.ts';

/** The keyring is missing or wrong; the message contains nothing of a key. */
export class KeyringError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'KeyringError';
  }
}

/** The custody keys of a service: the primary one seals, all of them open. The keys themselves are not accessible. */
export interface Keyring {
  readonly primary: string;
  has(kid: string): boolean;
  /** 32 bytes for one purpose, which the caller overwrites; undefined if the ring does not have the key. */
  derive(kid: string, salt: Uint8Array, info: Uint8Array): Buffer | undefined;
}

const KID = /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/;
const KEY = /^[A-Za-z0-9_-]{43}$/;
const MAX_KEYS = 16;

/** `{"primary":"k2","keys":{"k1":"…","k2":"…"}}`, each key 32 bytes as 43 base64url characters. */
export function parseKeyring(text: string): Keyring {
  const { primary, keys, ...rest } = objectOf(parsed(text), 'not a JSON object');
  if (Object.keys(rest).length > 0) throw new KeyringError('only "primary" and "keys" are known');
  const entries = Object.entries(objectOf(keys, '"keys" is not an object'));
  if (entries.length === 0 || entries.length > MAX_KEYS)
    throw new KeyringError(`needs 1 to ${MAX_KEYS} keys`);
  const material = new Map(entries.map(([kid, key]) => [checkedKid(kid), keyBytes(kid, key)]));
  if (new Set([...material.values()].map((bytes) => bytes.toString('hex'))).size < material.size)
    throw new KeyringError('two ids have the same key');
  if (typeof primary !== 'string' || !material.has(primary))
    throw new KeyringError('"primary" is not one of the keys');
  const ring = new Map([...material].map(([kid, bytes]) => [kid, createSecretKey(bytes)]));
  for (const bytes of material.values()) bytes.fill(0);
  return {
    primary,
    has: (kid) => ring.has(kid),
    derive: (kid, salt, info) => {
      const key = ring.get(kid);
      return key && Buffer.from(hkdfSync('sha256', key, salt, info, 32));
    },
  };
}

export interface KeyringOptions {
  /** Ids of the keys that stored data is sealed with: new content of the file without one of them is refused. */
  readonly inUse: () => Iterable<string>;
  readonly onChange?: (outcome: { ok: true; value: Keyring } | { ok: false; error: unknown }) => void;
}

/**
 * The keyring of a mounted file, which is read again when it changes. To replace a key: add the new one, make it
 * primary, wait until everything is sealed again, then remove the old one. In any other order the new content is
 * refused and the last valid one stays.
 */
export function watchKeyring(path: string, { inUse, onChange }: KeyringOptions): Promise<Watched<Keyring>> {
  const parse = (text: string) => {
    // A key that every account of the container can read protects nothing.
    if ((statSync(path).mode & 0o007) !== 0)
      throw new KeyringError('the file is open to everybody; needs 0440');
    const ring = parseKeyring(text);
    const missing = [...inUse()].filter((kid) => !ring.has(kid));
    if (missing.length > 0)
      throw new KeyringError(`keys that are still in use are missing: ${missing.join(', ')}`);
    return ring;
  };
  return watchFile(path, { parse, onChange });
}

function parsed(text: string): unknown {
  try {
    return parseStrictJson(Buffer.from(text));
  } catch (error) {
    throw new KeyringError('not JSON', { cause: error });
  }
}

function objectOf(value: unknown, problem: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new KeyringError(problem);
  return value as Record<string, unknown>;
}

function checkedKid(kid: string): string {
  if (!KID.test(kid))
    throw new KeyringError('a key id is 1 to 32 lower-case letters, digits and inner hyphens');
  return kid;
}

function keyBytes(kid: string, key: unknown): Buffer {
  if (typeof key !== 'string' || !KEY.test(key))
    throw new KeyringError(`${kid}: a key is 43 base64url characters`);
  const bytes = Buffer.from(key, 'base64url');
  if (bytes.toString('base64url') !== key || bytes.every((byte) => byte === bytes[0]))
    throw new KeyringError(`${kid}: not 32 random bytes`);
  return bytes;
}
