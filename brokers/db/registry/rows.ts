import type { TokenDigest } from '@space/broker-kit';
import type { CapsuleRow, CapsuleState, DatabaseRow } from '../core/decide.ts';
import type { Workload } from '../core/names.ts';
import type { Session } from '../server/connections.ts';

/** Every statement about the registry's rows. Whoever changes a row has locked it in the same transaction. */

export interface Principal {
  readonly capsule: string;
  readonly state: CapsuleState;
}

export async function findPrincipal(session: Session, digest: TokenDigest): Promise<Principal | undefined> {
  const [row] = await session.run<Principal>(
    'find principal',
    'SELECT capsule_id AS capsule, state FROM broker.capsule WHERE principal = $1',
    [digest],
  );
  return row;
}

/** Operations on single workloads share the Capsule's row; what changes the Capsule itself takes it alone. */
export async function lockCapsule(
  session: Session,
  capsule: string,
  mode: 'SHARE' | 'UPDATE',
): Promise<CapsuleRow | undefined> {
  const [row] = await session.run<CapsuleRow>(
    'lock capsule',
    `SELECT state, life, principal FROM broker.capsule WHERE capsule_id = $1 FOR ${mode}`,
    [capsule],
  );
  return row;
}

/** Returns false when another transaction was first; its row can then be locked. */
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
  const rows = await session.run(
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

/** Compare-and-swap of a Capsule's state. A Capsule that is no longer one keeps no principal. */
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

/** A finalized id lives again, with a new principal. */
export async function reviveCapsule(
  session: Session,
  capsule: string,
  life: number,
  principal: TokenDigest,
): Promise<void> {
  const rows = await session.run(
    'revive capsule',
    `UPDATE broker.capsule SET state = 'active', life = $2, principal = $3, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state = 'finalized' AND life = $2 - 1 RETURNING 1`,
    [capsule, life, principal],
  );
  expectOne(rows);
}

/** Compare-and-swap of a living Capsule's principal. */
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

const DATABASE_COLUMNS = 'state, name, generation, key_id AS "keyId", rotation_due AS "rotationDue", closed';

export async function lockDatabase(session: Session, workload: Workload): Promise<DatabaseRow | undefined> {
  const [row] = await session.run<DatabaseRow>(
    'lock database',
    `SELECT ${DATABASE_COLUMNS} FROM broker.database WHERE capsule_id = $1 AND app_id = $2 FOR UPDATE`,
    [workload.capsule, workload.app],
  );
  return row;
}

/** A registered database as `create` and rotation write it. */
export interface Registration {
  readonly life: number;
  readonly name: string;
  readonly generation: number;
  readonly keyId: string;
}

/** Returns false when another transaction was first; its row can then be locked. */
export async function insertDatabase(
  session: Session,
  workload: Workload,
  to: Registration,
): Promise<boolean> {
  const rows = await session.run(
    'insert database',
    `INSERT INTO broker.database (capsule_id, app_id, state, life, name, generation, key_id)
     VALUES ($1, $2, 'ready', $3, $4, $5, $6) ON CONFLICT (capsule_id, app_id) DO NOTHING RETURNING 1`,
    [workload.capsule, workload.app, to.life, to.name, to.generation, to.keyId],
  );
  return rows.length === 1;
}

/** Compare-and-swap from one generation to the next, whether a tombstone lives again or a password changes. */
export async function advanceDatabase(
  session: Session,
  workload: Workload,
  from: DatabaseRow,
  to: Registration,
): Promise<void> {
  const rows = await session.run(
    'advance database',
    `UPDATE broker.database SET state = 'ready', life = $5, name = $6, generation = $7, key_id = $8,
       rotation_due = false, closed = false, dropped_with_capsule = false, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND state = $3 AND generation = $4 RETURNING 1`,
    [workload.capsule, workload.app, from.state, from.generation, to.life, to.name, to.generation, to.keyId],
  );
  expectOne(rows);
}

export async function markDropping(session: Session, workload: Workload, name: string): Promise<void> {
  const rows = await session.run(
    'mark database dropping',
    `UPDATE broker.database SET state = 'dropping', changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND name = $3 AND state = 'ready' RETURNING 1`,
    [workload.capsule, workload.app, name],
  );
  expectOne(rows);
}

export async function markDropped(session: Session, workload: Workload, name: string): Promise<void> {
  const rows = await session.run(
    'mark database dropped',
    `UPDATE broker.database SET state = 'dropped', rotation_due = false, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND name = $3 AND state = 'dropping' RETURNING 1`,
    [workload.capsule, workload.app, name],
  );
  expectOne(rows);
}

/** What still exists of a Capsule. */
export function livingDatabases(
  session: Session,
  capsule: string,
): Promise<(DatabaseRow & { app: string })[]> {
  return session.run(
    'lock databases of capsule',
    `SELECT app_id AS app, ${DATABASE_COLUMNS} FROM broker.database
     WHERE capsule_id = $1 AND state <> 'dropped' ORDER BY app_id FOR UPDATE`,
    [capsule],
  );
}

/** Marks all that still exists as dropped by the drop of its Capsule. */
export async function markCapsuleDropping(session: Session, capsule: string): Promise<void> {
  await session.run(
    'mark databases dropping',
    `UPDATE broker.database SET state = 'dropping', dropped_with_capsule = true, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state <> 'dropped'`,
    [capsule],
  );
}

/** What the drop of this life of the Capsule has dropped, over all its attempts, sorted. */
export async function droppedWithCapsule(session: Session, capsule: string, life: number): Promise<string[]> {
  const rows = await session.run<{ name: string }>(
    'list dropped databases',
    `SELECT name FROM broker.database
     WHERE capsule_id = $1 AND life = $2 AND dropped_with_capsule AND state = 'dropped' ORDER BY name COLLATE "C"`,
    [capsule, life],
  );
  return rows.map(({ name }) => name);
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

function expectOne(rows: readonly unknown[]): void {
  if (rows.length !== 1) throw new Error('a locked row did not have the expected state');
}

/** The derivation keys that issued passwords depend on. */
export async function keyIdsInUse(session: Session): Promise<string[]> {
  const rows = await session.run<{ id: string }>(
    'list keys in use',
    "SELECT DISTINCT key_id AS id FROM broker.database WHERE state = 'ready' ORDER BY 1",
  );
  return rows.map(({ id }) => id);
}
