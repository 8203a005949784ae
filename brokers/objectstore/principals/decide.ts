/** A workload's state machine, as pure decisions over a row that the caller has locked. */

type WorkloadState = 'ready' | 'dropping' | 'dropped';

export interface WorkloadRow {
  readonly state: WorkloadState;
  /** The incarnation of the Capsule in which the workload was last created. */
  readonly incarnation: number;
  /** Never starts again: a tombstone keeps the last one. */
  readonly generation: number;
  readonly prefix: string;
  /** Digest of the principal; null unless the workload is ready. */
  readonly principal: Buffer | null;
}

export type CreateDecision =
  | { readonly kind: 'create'; readonly generation: number }
  | { readonly kind: 'existing' }
  | { readonly kind: 'replace' }
  | { readonly kind: 'conflict' };

/** A Capsule may replace the principal of its workload; the old one is then retired. */
export function decideCreate(row: WorkloadRow | undefined, samePrincipal: boolean): CreateDecision {
  if (row === undefined) return { kind: 'create', generation: 1 };
  if (row.state === 'dropped') return { kind: 'create', generation: row.generation + 1 };
  if (row.state === 'dropping') return { kind: 'conflict' };
  return samePrincipal ? { kind: 'existing' } : { kind: 'replace' };
}

export type DropDecision = 'cut' | 'resume' | 'already absent' | 'never created';

/** A tombstone proves a drop in the incarnation that asks, but none in an earlier one. */
export function decideDrop(row: WorkloadRow | undefined, incarnation: number): DropDecision {
  if (row === undefined || (row.state === 'dropped' && row.incarnation !== incarnation))
    return 'never created';
  if (row.state === 'dropped') return 'already absent';
  return row.state === 'dropping' ? 'resume' : 'cut';
}
