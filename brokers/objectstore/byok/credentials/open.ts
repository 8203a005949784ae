import { readFile } from 'node:fs/promises';
import { addressGuard, ConfigError, dialler, dnsResolve, fixedMap, withFixed } from '@space/broker-kit';
import type { Config } from '../../config.ts';
import type { Reach } from './guarded.ts';

/** Where Capsules' own endpoints may be, as the Space's administrator configured it. */
export async function openReach(config: Config): Promise<Reach> {
  const { BYOK_FIXED_HOSTS: fixed, BYOK_CA_FILE: ca } = config;
  return {
    dialler: dialler({
      resolve: withFixed(fixedMap(fixed), dnsResolve()),
      guard: guardOf(config.BYOK_DENIED_BLOCKS, config.BYOK_ALLOWED_BLOCKS),
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
