/** The two state machines, as pure decisions over rows that the caller has locked. */

export type CapsuleState = 'active' | 'dropping' | 'retired' | 'finalized';

/** `creating` exists only inside the transaction that makes a database, so no row ever shows it. */
type DatabaseState = 'ready' | 'dropping' | 'dropped';

export interface CapsuleRow {
  readonly state: CapsuleState;
  /** How many times this id has been provisioned. */
  readonly life: number;
  /** Digest of the principal; null once it is retired. */
  readonly principal: Buffer | null;
}

export interface DatabaseRow {
  readonly state: DatabaseState;
  readonly name: string;
  readonly generation: number;
  readonly keyId: string;
  /** An administrator asked for a new password; the next create gives it. */
  readonly rotationDue: boolean;
  /** An administrator closed it: it is kept, and nobody comes in. */
  readonly closed: boolean;
}

export type ProvisionDecision = 'first life' | 'same life' | 'next life' | 'conflict';

export function decideProvision(row: CapsuleRow | undefined, samePrincipal: boolean): ProvisionDecision {
  if (row === undefined) return 'first life';
  if (row.state === 'finalized') return 'next life';
  return row.state === 'active' && samePrincipal ? 'same life' : 'conflict';
}

export type CreateDecision =
  | { readonly kind: 'create' | 'rotate'; readonly generation: number }
  | { readonly kind: 'existing' | 'conflict' };

/** Generations never restart: a tombstone keeps the last one, and each new life or password adds one. */
export function decideCreate(row: DatabaseRow | undefined): CreateDecision {
  if (row === undefined) return { kind: 'create', generation: 1 };
  if (row.state === 'dropped') return { kind: 'create', generation: row.generation + 1 };
  if (row.state === 'dropping' || row.closed) return { kind: 'conflict' };
  return row.rotationDue ? { kind: 'rotate', generation: row.generation + 1 } : { kind: 'existing' };
}

export type DropDecision = 'cut' | 'resume' | 'already absent' | 'never created';

export function decideDrop(row: DatabaseRow | undefined): DropDecision {
  if (row === undefined) return 'never created';
  if (row.state === 'dropped') return 'already absent';
  return row.state === 'dropping' ? 'resume' : 'cut';
}

export type FinalizeDecision = 'finalize' | 'already finalized' | 'conflict' | 'unknown';

export function decideFinalize(row: CapsuleRow | undefined): FinalizeDecision {
  if (row === undefined) return 'unknown';
  if (row.state === 'finalized') return 'already finalized';
  return row.state === 'retired' ? 'finalize' : 'conflict';
}

/** While a Capsule is being dropped, its principal may do nothing but drop it. */
export function mayAct(state: CapsuleState, operation: 'apps' | 'drop'): boolean {
  return state === 'active' || (state === 'dropping' && operation === 'drop');
}
