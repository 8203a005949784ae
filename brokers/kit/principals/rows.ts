import type { Session } from '../postgres/session.ts';
import type { TokenDigest } from '../tokens.ts';
import type { CapsuleRow, CapsuleState } from './decide.ts';

/** All statements about Capsules and the audit. A caller that changes a row has locked it in the same transaction. */

export interface Principal {
  readonly capsule: string;
  readonly state: CapsuleState;
}

export async function findPrincipal(session: Session, digest: TokenDigest): Promise<Principal | undefined> {
  const [row] = await session.read<Principal>(
    'find principal',
    'SELECT capsule_id AS capsule, state FROM broker.capsule WHERE principal = $1',
    [digest],
  );
  return row;
}

/** Operations on single workloads lock the Capsule's row shared; changes of the Capsule itself lock it exclusively. */
export async function lockCapsule(
  session: Session,
  capsule: string,
  mode: 'SHARE' | 'UPDATE',
): Promise<CapsuleRow | undefined> {
  const [row] = await session.read<CapsuleRow>(
    'lock capsule',
    `SELECT state, life AS incarnation, principal FROM broker.capsule WHERE capsule_id = $1 FOR ${mode}`,
    [capsule],
  );
  return row;
}

/** Inserts the row; returns false if another transaction was faster, whose row can then be locked. */
export async function insertCapsule(
  session: Session,
  capsule: string,
  principal: TokenDigest,
): Promise<boolean> {
  const rows = await session.run(
    'insert capsule',
    `INSERT INTO broker.capsule (capsule_id, state, life, principal) VALUES ($1, 'active', 1, $2)
     ON CONFLICT (capsule_id) DO NOTHING RETURNING 1`,
    [capsule, principal],
  );
  return rows.length === 1;
}

export async function isRetired(session: Session, principal: TokenDigest): Promise<boolean> {
  const rows = await session.read(
    'find retired principal',
    'SELECT 1 FROM broker.retired_principal WHERE principal = $1',
    [principal],
  );
  return rows.length > 0;
}

export async function retirePrincipal(
  session: Session,
  capsule: string,
  principal: TokenDigest,
): Promise<void> {
  await session.run(
    'retire principal',
    'INSERT INTO broker.retired_principal (principal, capsule_id) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    [principal, capsule],
  );
}

/** Compare-and-swap of a Capsule's state. Only an active or dropping Capsule keeps its principal. */
export async function moveCapsule(
  session: Session,
  capsule: string,
  from: CapsuleState,
  to: 'dropping' | 'retired' | 'finalized',
): Promise<void> {
  const rows = await session.run(
    `capsule ${from} to ${to}`,
    `UPDATE broker.capsule SET state = $3, changed_at = clock_timestamp(),
       principal = CASE WHEN $3 = 'dropping' THEN principal END
     WHERE capsule_id = $1 AND state = $2 RETURNING 1`,
    [capsule, from, to],
  );
  expectOne(rows);
}

/** Begins the next incarnation of a finalized id, with a new principal. */
export async function reviveCapsule(
  session: Session,
  capsule: string,
  incarnation: number,
  principal: TokenDigest,
): Promise<void> {
  const rows = await session.run(
    'revive capsule',
    `UPDATE broker.capsule SET state = 'active', life = $2, principal = $3, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state = 'finalized' AND life = $2 - 1 RETURNING 1`,
    [capsule, incarnation, principal],
  );
  expectOne(rows);
}

/** Compare-and-swap of the principal of a Capsule that is not retired. */
export async function replacePrincipal(
  session: Session,
  capsule: string,
  from: TokenDigest,
  to: TokenDigest,
): Promise<void> {
  const rows = await session.run(
    'replace principal',
    'UPDATE broker.capsule SET principal = $3 WHERE capsule_id = $1 AND principal = $2 RETURNING 1',
    [capsule, from, to],
  );
  expectOne(rows);
}

export interface AuditEntry {
  readonly traceId: string;
  readonly operation: string;
  readonly authority: string;
  readonly capsule: string;
  readonly app?: string;
  readonly outcome: string;
}

export async function audit(session: Session, entry: AuditEntry): Promise<void> {
  await session.run(
    'audit',
    `INSERT INTO broker.audit (trace_id, operation, authority, capsule_id, app_id, outcome)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [entry.traceId, entry.operation, entry.authority, entry.capsule, entry.app ?? '', entry.outcome],
  );
}

/** Asserts that a compare-and-swap of a locked row changed it. */
export function expectOne(rows: readonly unknown[]): void {
  if (rows.length !== 1) throw new Error('a locked row did not have the expected state');
}
