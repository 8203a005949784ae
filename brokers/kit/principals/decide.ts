/** A Capsule's state machine in a broker, as pure decisions over a row that the caller has locked. */

export type CapsuleState = 'active' | 'dropping' | 'retired' | 'finalized';

export interface CapsuleRow {
  readonly state: CapsuleState;
  /** How many times this id has been provisioned. */
  readonly incarnation: number;
  /** Digest of the principal; null once it is retired. */
  readonly principal: Buffer | null;
}

export type ProvisionDecision = 'first incarnation' | 'same incarnation' | 'next incarnation' | 'conflict';

export function decideProvision(row: CapsuleRow | undefined, samePrincipal: boolean): ProvisionDecision {
  if (row === undefined) return 'first incarnation';
  if (row.state === 'finalized') return 'next incarnation';
  return row.state === 'active' && samePrincipal ? 'same incarnation' : 'conflict';
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
