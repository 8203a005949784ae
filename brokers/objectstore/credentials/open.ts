import { readFile } from 'node:fs/promises';
import { type Answer, addressGuard, ConfigError, dialler, dnsResolve, withFixed } from '@space/broker-kit';
import type { Config } from '../config.ts';
import type { Reach } from './guarded.ts';

/** Where Capsules' own endpoints may be, as the Space's administrator configured it. */
export async function openReach(config: Config): Promise<Reach> {
  const { BYOK_FIXED_HOSTS: fixed, BYOK_CA_FILE: ca } = config;
  return {
    dialler: dialler({
      resolve: withFixed(fixedHosts(fixed), dnsResolve()),
      guard: guardOf(words(config.BYOK_DENIED_BLOCKS), words(config.BYOK_ALLOWED_BLOCKS)),
    }),
    ca: ca === undefined ? undefined : await readFile(ca, 'utf8'),
  };
}

function guardOf(denied: readonly string[], allowed: readonly string[]) {
  try {
    return addressGuard({ denied, allowed });
  } catch (error) {
    const why = error instanceof Error ? error.message : 'not blocks of addresses';
    throw new ConfigError(`BYOK_DENIED_BLOCKS, BYOK_ALLOWED_BLOCKS: ${why}`, { cause: error });
  }
}

/** `name=address,…`: private endpoints that an administrator names, one by one. */
function fixedHosts(text: string): ReadonlyMap<string, Answer> {
  return new Map(
    words(text).map((word) => {
      const [name = '', address = '', ...more] = word.split('=');
      if (name === '' || address === '' || more.length > 0)
        throw new ConfigError('BYOK_FIXED_HOSTS: needs name=address, separated by commas');
      return [name, { address, ttl: 60, trusted: true as const }];
    }),
  );
}

function words(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}
