import { createHash } from 'node:crypto';
import type { Envelope } from '@space/broker-kit/custody';

/** Where a Capsule's own credential set leads; never a value. */
export interface Routing {
  /** `https://host[:port]` */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  readonly addressing: 'path' | 'virtual-host';
}

/** Everything about a set but its values. Times in milliseconds since 1970. */
export interface CredentialSet extends Routing {
  readonly setId: string;
  readonly name: string;
  readonly formVersion: number;
  /** 1, and one more with each rotation. */
  readonly generation: number;
  readonly fingerprint: string;
  readonly verifiedAt: number;
  readonly createdAt: number;
  readonly rotatedAt: number | null;
}

export interface SealedSet extends CredentialSet {
  readonly envelope: Envelope;
}

/** What a Capsule has in custody. */
export interface Inventory {
  readonly capsule: string;
  readonly incarnation: number;
  /** `inventory_generation`: one more with everything that a caller can see. */
  readonly generation: number;
  /** One more with every write. */
  readonly revision: number;
  readonly selected: string | null;
  /** The highest generation that any set ever had. */
  readonly high: number;
  /** The head of the revision before, or `NO_HEAD`. */
  readonly previous: string;
  /** Ordered by set id. */
  readonly sets: readonly SealedSet[];
}

/** An inventory as it is stored, with the MAC that makes it one thing. */
export interface StoredInventory extends Inventory {
  readonly headKid: string;
  /** Lower-case hex. */
  readonly head: string;
}

/** What stands for a head where there is no revision before. */
export const NO_HEAD = '0'.repeat(64);

export function emptyInventory(capsule: string, incarnation: number): Inventory {
  return {
    capsule,
    incarnation,
    generation: 0,
    revision: 0,
    selected: null,
    high: 0,
    previous: NO_HEAD,
    sets: [],
  };
}

/** The next revision of what is stored. */
export function nextRevision(stored: StoredInventory | undefined, next: Inventory): Inventory {
  return { ...next, revision: (stored?.revision ?? 0) + 1, previous: stored?.head ?? NO_HEAD };
}

export function isEmpty({ sets, selected }: Inventory): boolean {
  return sets.length === 0 && selected === null;
}

/** What the envelope of a set authenticates: whose it is, what it is, where it leads, which generation. */
export function contextOf(
  space: string,
  { capsule, incarnation }: Pick<Inventory, 'capsule' | 'incarnation'>,
  set: CredentialSet,
) {
  return {
    protocol: 'platform.objectstore/v1',
    space,
    capsule,
    life: incarnation,
    set_id: set.setId,
    name: set.name,
    form_version: set.formVersion,
    generation: set.generation,
    endpoint: set.endpoint,
    region: set.region,
    bucket: set.bucket,
    addressing: set.addressing,
    fingerprint: set.fingerprint,
    verified_at: set.verifiedAt,
    created_at: set.createdAt,
    rotated_at: set.rotatedAt,
  };
}

/** What the head's MAC is made over. Sets of sets are told apart, since their number is a part. */
export function headParts(space: string, inventory: Inventory): string[] {
  return [
    'head/v1',
    space,
    inventory.capsule,
    String(inventory.incarnation),
    String(inventory.generation),
    String(inventory.revision),
    inventory.selected === null ? 'managed' : `set ${inventory.selected}`,
    String(inventory.high),
    inventory.previous,
    String(inventory.sets.length),
    ...bySetId(inventory.sets).flatMap(({ setId, generation, envelope }) => [
      setId,
      String(generation),
      envelope.kid,
      createHash('sha256').update(envelope.jwe).digest('hex'),
    ]),
  ];
}

export function bySetId<Set extends { readonly setId: string }>(sets: readonly Set[]): Set[] {
  return sets.toSorted((a, b) => (a.setId < b.setId ? -1 : 1));
}
