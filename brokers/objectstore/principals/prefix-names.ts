import { createHmac } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';

/**
 * The prefixes of objects in the Space's bucket: keyed hashes without an id in them, so that no tenant's key can equal
 * another's. Each incarnation of a Capsule and each generation of a workload has its own prefix, so that a late write
 * never reaches a successor. Every prefix ends in `/`.
 */
export interface PrefixNames {
  /** The prefix of everything that a Capsule has. */
  capsule(capsule: string, incarnation: number): string;
  /** The prefix of what its Assistants share, under that of the Capsule. */
  shared(capsulePrefix: string): string;
  /** The prefix of one Assistant, under that of the Capsule. */
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
