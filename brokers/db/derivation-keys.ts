import { ConfigError, parseKeys } from '@space/broker-kit';
import { type DerivationKey, derivationKey } from './core/credentials.ts';

/** The keys that passwords are derived from: the current one for new passwords, all of them for existing ones. */
export interface DerivationKeys {
  readonly current: DerivationKey;
  byId(id: string): DerivationKey | undefined;
}

/** Reads one key a line; the first is the current one. */
export function parseDerivationKeys(text: string): DerivationKeys {
  const keys = parseKeys(text, 'DERIVATION_KEY_FILE').map((key) => derivationKey(key.reveal()));
  const [current] = keys;
  if (current === undefined) throw new ConfigError('DERIVATION_KEY_FILE: no key in it');
  const byId = new Map(keys.map((key) => [key.id, key]));
  return { current, byId: (id) => byId.get(id) };
}
