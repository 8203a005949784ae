/** A database's state machine, as pure decisions over a row that the caller has locked. */

/** `creating` exists only inside the transaction that creates a database, so no committed row has it. */
type DatabaseState = 'ready' | 'dropping' | 'dropped';

export interface DatabaseRow {
  readonly state: DatabaseState;
  /** The incarnation of the Capsule in which the database was last created. */
  readonly incarnation: number;
  readonly name: string;
  readonly generation: number;
  /** The random part of its password. */
  readonly epoch: string;
  readonly keyId: string;
  /** An administrator has requested a new password, which the next create issues. */
  readonly rotationDue: boolean;
  /** Whether the next password also ends all sessions. */
  readonly evicting: boolean;
  /** Whether an administrator has closed the database: its data is kept, and nobody may connect. */
  readonly closed: boolean;
}

export type CreateDecision =
  | { readonly kind: 'create' | 'rotate'; readonly generation: number }
  | { readonly kind: 'existing' | 'conflict' };

/** Generations never restart: a tombstone keeps the last one, and each new incarnation or password adds one. */
export function decideCreate(row: DatabaseRow | undefined): CreateDecision {
  if (row === undefined) return { kind: 'create', generation: 1 };
  if (row.state === 'dropped') return { kind: 'create', generation: row.generation + 1 };
  if (row.state === 'dropping' || row.closed) return { kind: 'conflict' };
  return row.rotationDue ? { kind: 'rotate', generation: row.generation + 1 } : { kind: 'existing' };
}

export type DropDecision = 'cut' | 'resume' | 'already absent' | 'never created';

/** A tombstone proves a drop in the incarnation that asks, but none in an earlier one. */
export function decideDrop(row: DatabaseRow | undefined, incarnation: number): DropDecision {
  if (row === undefined || (row.state === 'dropped' && row.incarnation !== incarnation))
    return 'never created';
  if (row.state === 'dropped') return 'already absent';
  return row.state === 'dropping' ? 'resume' : 'cut';
}
