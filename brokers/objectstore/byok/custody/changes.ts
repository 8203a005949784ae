import type { ErrorCode } from '@space/broker-kit';
import { bySetId, type CredentialSet, type Inventory, type Routing, type SealedSet } from './inventory.ts';

/**
 * Pure functions that change an inventory: each compares what the caller has seen with what exists, and returns the
 * next inventory or the code of a refusal.
 */

type Refusal = Extract<
  ErrorCode,
  | 'invalid_request'
  | 'not_found'
  | 'stale_generation'
  | 'already_exists'
  | 'credential_selected'
  | 'quota_exceeded'
>;

export type Decision<Next> = { readonly refused: Refusal } | ({ readonly refused?: never } & Next);

/** The set of a create or a rotation, before it is sealed. */
export interface Planned {
  readonly set: CredentialSet;
}

export interface Candidate extends Routing {
  readonly formVersion: number;
  readonly fingerprint: string;
  readonly verifiedAt: number;
}

export function planCreate(
  inventory: Inventory,
  request: {
    readonly name: string;
    readonly expected: number;
    readonly candidate: Candidate;
    readonly setId: string;
    /** The most sets of a Capsule. */
    readonly most: number;
  },
): Decision<Planned> {
  const { name, expected, candidate, setId, most } = request;
  if (inventory.generation !== expected) return { refused: 'stale_generation' };
  if (inventory.sets.some((set) => set.name === name)) return { refused: 'already_exists' };
  if (inventory.sets.length >= most) return { refused: 'quota_exceeded' };
  const at = candidate.verifiedAt;
  return { set: { ...candidate, setId, name, generation: 1, createdAt: at, rotatedAt: null } };
}

export function planRotate(
  inventory: Inventory,
  request: { readonly setId: string; readonly expected: number; readonly candidate: Candidate },
): Decision<Planned> {
  const { setId, expected, candidate } = request;
  const set = inventory.sets.find((one) => one.setId === setId);
  if (set === undefined) return { refused: 'not_found' };
  if (set.generation !== expected) return { refused: 'stale_generation' };
  // With another endpoint or bucket, the name would point to other data. That needs a create and a select.
  if (set.endpoint !== candidate.endpoint || set.bucket !== candidate.bucket)
    return { refused: 'invalid_request' };
  const at = candidate.verifiedAt;
  const generation = set.generation + 1;
  return {
    set: { ...candidate, setId, name: set.name, generation, createdAt: set.createdAt, rotatedAt: at },
  };
}

export type Next = { readonly next: Inventory };

export function planned(inventory: Inventory, set: SealedSet): Inventory {
  const others = inventory.sets.filter(({ setId }) => setId !== set.setId);
  const high = Math.max(inventory.high, set.generation);
  return { ...nextGeneration(inventory), high, sets: bySetId([...others, set]) };
}

export function select(
  inventory: Inventory,
  { setId, expected }: { readonly setId: string | null; readonly expected: number },
): Decision<Next> {
  if (setId !== null && !inventory.sets.some((set) => set.setId === setId)) return { refused: 'not_found' };
  if (inventory.generation !== expected) return { refused: 'stale_generation' };
  return {
    next: inventory.selected === setId ? inventory : { ...nextGeneration(inventory), selected: setId },
  };
}

/** `tombstone` is the generation at which a set with this id was deleted. */
export function remove(
  inventory: Inventory,
  request: { readonly setId: string; readonly expected: number; readonly tombstone: number | undefined },
): Decision<Next & { readonly alreadyAbsent: boolean }> {
  const { setId, expected, tombstone } = request;
  const set = inventory.sets.find((one) => one.setId === setId);
  if (set === undefined && tombstone === undefined) return { refused: 'not_found' };
  if ((set?.generation ?? tombstone) !== expected) return { refused: 'stale_generation' };
  if (set === undefined) return { next: inventory, alreadyAbsent: true };
  // If the selected set could be deleted, objects would go to another bucket without notice.
  if (inventory.selected === setId) return { refused: 'credential_selected' };
  const sets = inventory.sets.filter((one) => one.setId !== setId);
  return { next: { ...nextGeneration(inventory), sets }, alreadyAbsent: false };
}

/** An inventory without sets and selection, for a Capsule that is dropped or provisioned again. */
export function clear(inventory: Inventory, incarnation: number): Inventory {
  return { ...nextGeneration(inventory), incarnation, selected: null, sets: [] };
}

/** Increases the generation; the revision is set when it is written. */
function nextGeneration(inventory: Inventory): Inventory {
  return { ...inventory, generation: inventory.generation + 1 };
}
