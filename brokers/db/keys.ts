import { Secret } from '@space/broker-kit';
import { ConfigError } from './config.ts';
import { type DerivationKey, derivationKey } from './core/credentials.ts';

const KEY = /^[A-Za-z0-9_-]{43}$/;

/** The keys that derive passwords: the first for what is new, all for what already exists. */
export interface Keyring {
  readonly current: DerivationKey;
  byId(id: string): DerivationKey | undefined;
}

/** One key a line, each 32 bytes as 43 base64url characters; the first is the current one. */
export function parseKeyring(text: string): Keyring {
  const keys = lines(text).map((line) => derivationKey(keyBytes(line, 'DERIVATION_KEY_FILE')));
  const [current] = keys;
  if (current === undefined) throw new ConfigError('DERIVATION_KEY_FILE: no key in it');
  const byId = new Map(keys.map((key) => [key.id, key]));
  return { current, byId: (id) => byId.get(id) };
}

export function parseNameKey(text: string): Secret<Buffer> {
  const [line, ...more] = lines(text);
  if (line === undefined || more.length > 0)
    throw new ConfigError('NAME_KEY_FILE: exactly one key is needed');
  return new Secret(keyBytes(line, 'NAME_KEY_FILE'));
}

function keyBytes(line: string, setting: string): Buffer {
  if (!KEY.test(line)) throw new ConfigError(`${setting}: a key is 43 base64url characters`);
  return Buffer.from(line, 'base64url');
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
