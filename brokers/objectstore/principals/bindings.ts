import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { lengthPrefixed, type Secret, type TokenDigest } from '@space/broker-kit';

/** Binds a Capsule's principal to its prefix. */
export interface CapsuleBinding {
  readonly capsule: string;
  readonly incarnation: number;
  readonly prefix: string;
  readonly principal: TokenDigest | Buffer;
}

/** Binds a workload's principal to its prefix. */
export interface WorkloadBinding {
  readonly capsule: string;
  readonly app: string;
  readonly incarnation: number;
  readonly generation: number;
  /** The Capsule's prefix, which what its Assistants share is in. */
  readonly capsulePrefix: string;
  readonly prefix: string;
  readonly principal: TokenDigest | Buffer;
}

interface Binding<Bound> {
  mac(bound: Bound): Buffer;
  holds(bound: Bound, mac: Buffer | null): boolean;
}

/**
 * Says by a MAC in each row that this Space gave the prefix to the principal: who can write to the registry can act as no
 * Capsule and gives nobody another's files by an edit. Each kind has a key, derived from the one that places are named by.
 */
export interface Bindings {
  readonly capsule: Binding<CapsuleBinding>;
  readonly workload: Binding<WorkloadBinding>;
}

export function createBindings(secret: Secret<Buffer>, space: string): Bindings {
  const binding = <Bound extends { readonly principal: TokenDigest | Buffer }>(
    label: string,
    partsOf: (bound: Bound) => string[],
  ): Binding<Bound> => {
    const key = Buffer.from(hkdfSync('sha256', secret.reveal(), '', label, 32));
    const mac = (bound: Bound) =>
      createHmac('sha256', key)
        .update(lengthPrefixed([space, ...partsOf(bound)]))
        .update(bound.principal)
        .digest();
    return {
      mac,
      holds: (bound, found) => found !== null && found.length === 32 && timingSafeEqual(found, mac(bound)),
    };
  };
  return {
    capsule: binding('space-object-capsule-binding/v1', ({ capsule, incarnation, prefix }) => [
      capsule,
      String(incarnation),
      prefix,
    ]),
    workload: binding(
      'space-object-binding/v1',
      ({ capsule, app, incarnation, generation, capsulePrefix, prefix }) => [
        capsule,
        app,
        String(incarnation),
        String(generation),
        capsulePrefix,
        prefix,
      ],
    ),
  };
}
