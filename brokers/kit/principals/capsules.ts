import { refusal, ServiceError } from '../errors.ts';
import { SQLSTATE, StepError } from '../postgres/errors.ts';
import type { Session } from '../postgres/session.ts';
import { sameDigest, type TokenDigest } from '../tokens.ts';
import { decideFinalize, decideProvision, mayAct } from './decide.ts';
import {
  type AuditEntry,
  audit,
  insertCapsule,
  isRetired,
  lockCapsule,
  moveCapsule,
  replacePrincipal,
  retirePrincipal,
  reviveCapsule,
} from './rows.ts';

/** The caller of an operation, and its trace id. */
export interface Call {
  readonly traceId: string;
  /** The digest of the Capsule's principal, if the Capsule is the caller. */
  readonly principal?: TokenDigest;
}

/** An audit entry whose outcome is not known yet. */
export type Undecided = Omit<AuditEntry, 'outcome'>;

/** The fields of an audit entry that say who asked for what. */
export function about(call: Call, operation: string, authority: 'provisioner' | 'capsule') {
  return { traceId: call.traceId, operation, authority };
}

export interface Registered {
  /** The present incarnation of the Capsule. */
  readonly incarnation: number;
  /** Whether this call began the incarnation. */
  readonly begun: boolean;
}

/** Registers a Capsule with its principal, or finds it. Its row stays locked. */
export async function registerCapsule(
  session: Session,
  capsule: string,
  principal: TokenDigest,
): Promise<Registered> {
  for (;;) {
    const row = await lockCapsule(session, capsule, 'UPDATE');
    const same = row !== undefined && row.principal !== null && sameDigest(row.principal, principal);
    const decision = decideProvision(row, same);
    if (decision === 'conflict') throw new ServiceError('conflict', 'another principal, or not finalized');
    if (decision === 'same incarnation') return { incarnation: row?.incarnation ?? 1, begun: false };
    if (await isRetired(session, principal)) throw new ServiceError('conflict', 'the principal is retired');
    if (decision === 'next incarnation' && row !== undefined) {
      const incarnation = row.incarnation + 1;
      await reviveCapsule(session, capsule, incarnation, principal);
      return { incarnation, begun: true };
    }
    if (await insertCapsule(session, capsule, principal)) return { incarnation: 1, begun: true };
  }
}

/** Waits for work that stores a principal. @throws ServiceError `conflict` if the principal belongs to another */
export async function unlessTaken<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const taken = error instanceof StepError && error.code === SQLSTATE.uniqueViolation;
    // Only the caller that chose the principal learns that.
    throw taken ? new ServiceError('conflict', 'the principal is in use', { cause: error }) : error;
  }
}

/**
 * Locks the Capsule and checks again that the principal is its own, since it may have been retired after the look-up.
 */
export async function authorisedCapsule(
  session: Session,
  call: Call,
  capsule: string,
  operation: 'apps' | 'drop',
): Promise<{ incarnation: number; state: 'active' | 'dropping' }> {
  const row = await lockCapsule(session, capsule, operation === 'apps' ? 'SHARE' : 'UPDATE');
  const { principal } = call;
  if (row?.principal == null || principal === undefined || !sameDigest(row.principal, principal))
    throw refusal();
  if (!mayAct(row.state, operation)) throw refusal();
  return { incarnation: row.incarnation, state: row.state === 'active' ? 'active' : 'dropping' };
}

/**
 * The last step of a drop: retires the principal. Returns false if another caller with the same authority was faster;
 * what was dropped is the same.
 */
export async function retireCapsule(
  session: Session,
  entry: Undecided,
  incarnation: number,
): Promise<boolean> {
  const { capsule } = entry;
  const row = await lockCapsule(session, capsule, 'UPDATE');
  if (row?.state !== 'dropping' || row.incarnation !== incarnation) return false;
  if (row.principal !== null) await retirePrincipal(session, capsule, row.principal);
  await moveCapsule(session, capsule, 'dropping', 'retired');
  await audit(session, { ...entry, outcome: 'retired' });
  return true;
}

/** Releases the id of a dropped Capsule; repeated calls have the same answer. */
export async function finalizeCapsule(session: Session, entry: Undecided): Promise<true> {
  const { capsule } = entry;
  const row = await lockCapsule(session, capsule, 'UPDATE');
  const decision = decideFinalize(row);
  if (row === undefined) throw new ServiceError('not_found', 'unknown Capsule');
  if (decision === 'conflict') throw new ServiceError('conflict', 'the Capsule is not dropped');
  if (decision === 'finalize') await moveCapsule(session, capsule, 'retired', 'finalized');
  await audit(session, { ...entry, outcome: decision });
  return true;
}

/** Replaces a lost principal by an administrator's command: the new one is registered, the old one retired. */
export async function exchangePrincipal(
  session: Session,
  traceId: string,
  capsule: string,
  principal: TokenDigest,
): Promise<{ readonly replaced: boolean }> {
  const row = await lockCapsule(session, capsule, 'UPDATE');
  if (row === undefined) throw new ServiceError('not_found', 'no such Capsule');
  if (row.principal === null)
    throw new ServiceError(
      'conflict',
      `the Capsule is ${row.state}: its data was dropped, and it has no principal to replace. Delete the Capsule and apply it again; it begins with nothing`,
    );
  if (row.principal.equals(principal)) return { replaced: false };
  await retirePrincipal(session, capsule, row.principal);
  await replacePrincipal(session, capsule, row.principal, principal);
  const operation = 'administrator.replace-principal';
  await audit(session, { traceId, operation, authority: 'administrator', capsule, outcome: 'replaced' });
  return { replaced: true };
}
