import { createHash } from 'node:crypto';
import type { Envelope } from '@space/broker-kit/custody';

/** The destination of a credential set, without its secret values. */
export interface Routing {
  /** `https://host[:port]` */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  readonly addressing: 'path' | 'virtual-host';
}

/** Everything of a set but its secret values. Times are milliseconds since 1970. */
export interface CredentialSet extends Routing {
  readonly setId: string;
  readonly name: string;
  readonly formVersion: number;
  /** 1, increased by each rotation. */
  readonly generation: number;
  readonly fingerprint: string;
  readonly verifiedAt: number;
  readonly createdAt: number;
  readonly rotatedAt: number | null;
}

export interface SealedSet extends CredentialSet {
  readonly envelope: Envelope;
}

/** Everything that custody has of a Capsule. */
export interface Inventory {
  readonly capsule: string;
  readonly incarnation: number;
  /** `inventory_generation`, increased by everything that a caller can see. */
  readonly generation: number;
  /** Increased by every write. */
  readonly revision: number;
  readonly selected: string | null;
  /** The highest generation that any set has had. */
  readonly high: number;
  /** The head of the previous revision, or `NO_HEAD`. */
  readonly previous: string;
  /** Ordered by set id. */
  readonly sets: readonly SealedSet[];
}

/** A stored inventory, with the MAC over all of it. */
export interface StoredInventory extends Inventory {
  readonly headKid: string;
  /** In lower-case hex. */
  readonly head: string;
}

/** The head before the first revision. */
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

/** The revision that follows the stored one. */
export function nextRevision(stored: StoredInventory | undefined, next: Inventory): Inventory {
  return { ...next, revision: (stored?.revision ?? 0) + 1, previous: stored?.head ?? NO_HEAD };
}

export function isEmpty({ sets, selected }: Inventory): boolean {
  return sets.length === 0 && selected === null;
}

/** What the envelope of a set authenticates: its owner, its id, its destination and its generation. */
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

/** The input of the head's MAC. It contains the number of sets, so that no two inventories have the same input. */
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
