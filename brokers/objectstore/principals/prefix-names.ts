import { createHmac } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';

/**
 * Where objects lie in the Space's bucket: keyed hashes with no id in them, so that no key of one tenant can spell
 * another's. An incarnation of a Capsule and a generation of a workload have prefixes of their own, so that a write that comes
 * late never reaches their successors. Every prefix ends in `/`.
 */
export interface PrefixNames {
  /** All that a Capsule has. */
  capsule(capsule: string, incarnation: number): string;
  /** What its Assistants share, in the Capsule's prefix. */
  shared(capsulePrefix: string): string;
  /** What one Assistant has, in the Capsule's prefix. */
  workload(capsulePrefix: string, app: string, generation: number): string;
}

export function createPrefixNames(key: Secret<Buffer>, space: string): PrefixNames {
  const hash = (...parts: string[]) =>
    createHmac('sha256', key.reveal())
      .update(lengthPrefixed(['place/v1', space, ...parts]))
      .digest('hex')
      .slice(0, 40);
  return {
    capsule: (capsule, incarnation) => `c/${hash('capsule', capsule, String(incarnation))}/`,
    shared: (prefix) => `${prefix}s/`,
    workload: (prefix, app, generation) => `${prefix}a/${hash('app', prefix, app, String(generation))}/`,
  };
}
