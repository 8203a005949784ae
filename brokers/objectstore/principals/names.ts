import { createHmac } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';

/**
 * Where objects lie in the Space's bucket: keyed hashes with no id in them, so that no key of one tenant can spell
 * another's. A life of a Capsule and a generation of a workload have places of their own, so that a write that comes
 * late never reaches their successors. Every place ends in `/`.
 */
export interface PlaceNames {
  /** All that a Capsule has. */
  capsule(capsule: string, life: number): string;
  /** What its Assistants share, in the Capsule's place. */
  shared(capsulePlace: string): string;
  /** What one Assistant has, in the Capsule's place. */
  workload(capsulePlace: string, app: string, generation: number): string;
}

export function placeNames(key: Secret<Buffer>, space: string): PlaceNames {
  const hash = (...parts: string[]) =>
    createHmac('sha256', key.reveal())
      .update(lengthPrefixed(['place/v1', space, ...parts]))
      .digest('hex')
      .slice(0, 40);
  return {
    capsule: (capsule, life) => `c/${hash('capsule', capsule, String(life))}/`,
    shared: (place) => `${place}s/`,
    workload: (place, app, generation) => `${place}a/${hash('app', place, app, String(generation))}/`,
  };
}
