import { ConfigError, parseKeys } from '@space/broker-kit';
import { type DerivationKey, derivationKey } from './core/credentials.ts';

/** The keys that derive passwords: the first for what is new, all for what already exists. */
export interface Keyring {
  readonly current: DerivationKey;
  byId(id: string): DerivationKey | undefined;
}

/** One key a line; the first is the current one. */
export function parseKeyring(text: string): Keyring {
  const keys = parseKeys(text, 'DERIVATION_KEY_FILE').map((key) => derivationKey(key.reveal()));
  const [current] = keys;
  if (current === undefined) throw new ConfigError('DERIVATION_KEY_FILE: no key in it');
  const byId = new Map(keys.map((key) => [key.id, key]));
  return { current, byId: (id) => byId.get(id) };
}
