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
  /** The Capsule's prefix, which contains the shared prefix of its Assistants. */
  readonly capsulePrefix: string;
  readonly prefix: string;
  readonly principal: TokenDigest | Buffer;
}

interface Binding<Bound> {
  mac(bound: Bound): Buffer;
  holds(bound: Bound, mac: Buffer | null): boolean;
}

/**
 * A MAC in each row proves that this broker gave the prefix to the principal: by editing the registry nobody can act
 * for a Capsule or get another's files. Each kind of row has its own key, derived from the one for prefixes.
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
