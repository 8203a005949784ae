import type { Session } from '@space/broker-kit/postgres';
import { expectOne } from '@space/broker-kit/principals';
import type { DatabaseRow } from '../core/decide.ts';
import type { Workload } from '../core/names.ts';

/** All statements about registered databases. A caller that changes a row has locked it in the same transaction. */

const DATABASE_COLUMNS =
  'state, life AS incarnation, name, generation, epoch, key_id AS "keyId", rotation_due AS "rotationDue", evicting, closed';

export async function lockDatabase(session: Session, workload: Workload): Promise<DatabaseRow | undefined> {
  const [row] = await session.read<DatabaseRow>(
    'lock database',
    `SELECT ${DATABASE_COLUMNS} FROM broker.database WHERE capsule_id = $1 AND app_id = $2 FOR UPDATE`,
    [workload.capsule, workload.app],
  );
  return row;
}

/** The values that a create or a rotation writes. */
export interface Registration {
  readonly incarnation: number;
  readonly name: string;
  readonly generation: number;
  readonly epoch: string;
  readonly keyId: string;
}

/** Inserts the row; returns false if another transaction was faster, whose row can then be locked. */
export async function insertDatabase(
  session: Session,
  workload: Workload,
  to: Registration,
): Promise<boolean> {
  const rows = await session.run(
    'insert database',
    `INSERT INTO broker.database (capsule_id, app_id, state, life, name, generation, key_id, epoch)
     VALUES ($1, $2, 'ready', $3, $4, $5, $6, $7) ON CONFLICT (capsule_id, app_id) DO NOTHING RETURNING 1`,
    [workload.capsule, workload.app, to.incarnation, to.name, to.generation, to.keyId, to.epoch],
  );
  return rows.length === 1;
}

/** Compare-and-swap from one generation to the next, after a drop or for a new password. */
export async function advanceDatabase(
  session: Session,
  workload: Workload,
  from: DatabaseRow,
  to: Registration,
): Promise<void> {
  const rows = await session.run(
    'advance database',
    `UPDATE broker.database SET state = 'ready', life = $5, name = $6, generation = $7, key_id = $8,
       epoch = $9, rotation_due = false, evicting = evicting AND state = 'ready', closed = false, dropped_with_capsule = false, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND state = $3 AND generation = $4 RETURNING 1`,
    [
      workload.capsule,
      workload.app,
      from.state,
      from.generation,
      to.incarnation,
      to.name,
      to.generation,
      to.keyId,
      to.epoch,
    ],
  );
  expectOne(rows);
}

/** Makes the next create issue a new password. */
export async function markRotationDue(session: Session, workload: Workload): Promise<void> {
  const rows = await session.run(
    'mark rotation due',
    `UPDATE broker.database SET rotation_due = true
     WHERE capsule_id = $1 AND app_id = $2 AND state = 'ready' RETURNING 1`,
    [workload.capsule, workload.app],
  );
  expectOne(rows);
}

/** Records that all sessions were ended. */
export async function markEvicted(session: Session, workload: Workload): Promise<void> {
  const rows = await session.run(
    'mark evicted',
    `UPDATE broker.database SET evicting = false
     WHERE capsule_id = $1 AND app_id = $2 AND evicting RETURNING 1`,
    [workload.capsule, workload.app],
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

/** Records that the database is closed and keeps its data; undefined if it was closed already or is being dropped. */
export async function closeByName(session: Session, name: string): Promise<Workload | undefined> {
  const [row] = await session.run<{ capsule: string; app: string }>(
    'close database',
    `UPDATE broker.database SET closed = true, changed_at = clock_timestamp()
     WHERE name = $1 AND state = 'ready' AND NOT closed RETURNING capsule_id AS capsule, app_id AS app`,
    [name],
  );
  return row;
}

/** Locks the rows of a Capsule's databases that are not dropped. */
export function livingDatabases(
  session: Session,
  capsule: string,
): Promise<(DatabaseRow & { app: string })[]> {
  return session.read(
    'lock databases of capsule',
    `SELECT app_id AS app, ${DATABASE_COLUMNS} FROM broker.database
     WHERE capsule_id = $1 AND state <> 'dropped' ORDER BY app_id FOR UPDATE`,
    [capsule],
  );
}

/** Marks all databases that exist as dropped with their Capsule. */
export async function markCapsuleDropping(session: Session, capsule: string): Promise<void> {
  await session.run(
    'mark databases dropping',
    `UPDATE broker.database SET state = 'dropping', dropped_with_capsule = true, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state <> 'dropped'`,
    [capsule],
  );
}

/** The names that the drop of this incarnation of the Capsule has dropped in all of its attempts, sorted. */
export async function droppedWithCapsule(
  session: Session,
  capsule: string,
  incarnation: number,
): Promise<string[]> {
  const rows = await session.read<{ name: string }>(
    'list dropped databases',
    `SELECT name FROM broker.database
     WHERE capsule_id = $1 AND life = $2 AND dropped_with_capsule AND state = 'dropped' ORDER BY name COLLATE "C"`,
    [capsule, incarnation],
  );
  return rows.map(({ name }) => name);
}

/** Records a role that could not be dropped with its database. */
export async function noteLeftoverRole(session: Session, name: string): Promise<void> {
  await session.run(
    'note leftover role',
    'INSERT INTO broker.leftover_role (name) VALUES ($1) ON CONFLICT DO NOTHING',
    [name],
  );
}

/** Forgets that the broker has left the role behind; false if it has not. */
export async function forgetLeftoverRole(session: Session, name: string): Promise<boolean> {
  const rows = await session.run(
    'forget leftover role',
    'DELETE FROM broker.leftover_role WHERE name = $1 RETURNING 1',
    [name],
  );
  return rows.length === 1;
}

/** Whether the broker has left the role behind because it could not be dropped; locks the note of it. */
export async function isLeftoverRole(session: Session, name: string): Promise<boolean> {
  const rows = await session.run(
    'find leftover role',
    'SELECT FROM broker.leftover_role WHERE name = $1 FOR UPDATE',
    [name],
  );
  return rows.length === 1;
}

/**
 * Roles that could not be dropped, each with those that refer to it: a workload, or a database that is not the
 * broker's.
 */
export function leftoverRoles(session: Session): Promise<{ name: string; culprits: string[] }[]> {
  return session.read(
    'find leftover roles',
    `SELECT l.name, ARRAY(
       SELECT DISTINCT coalesce(w.capsule_id || '/' || w.app_id, d.datname::text, 'the server')
       FROM pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid
       LEFT JOIN broker.database w ON w.name = d.datname
       WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = r.oid) AS culprits
     FROM broker.leftover_role l LEFT JOIN pg_roles r ON r.rolname = l.name`,
  );
}

/** Databases and roles with the broker's names that no row has, as after a restore of an older registry. */
export function unknownObjects(
  session: Session,
): Promise<{ name: string; database: boolean; role: boolean }[]> {
  return session.read(
    'find unknown objects',
    `SELECT name, bool_or(database) AS database, bool_or(role) AS role FROM (
       SELECT datname::text AS name, true AS database, false AS role FROM pg_database
       WHERE pg_get_userbyid(datdba) = current_user
       UNION ALL SELECT rolname::text, false, true FROM pg_roles) server
     WHERE name ~ '^spc_[0-9a-f]{40}$'
       AND name NOT IN (SELECT d.name FROM broker.database d WHERE d.state <> 'dropped')
       AND name NOT IN (SELECT l.name FROM broker.leftover_role l)
       AND name NOT IN (SELECT a.name FROM broker.arriving_database a)
     GROUP BY name ORDER BY name`,
  );
}

/** The ids of the derivation keys that issued passwords depend on. */
export async function keyIdsInUse(session: Session): Promise<string[]> {
  const rows = await session.read<{ id: string }>(
    'list keys in use',
    "SELECT DISTINCT key_id AS id FROM broker.database WHERE state = 'ready' ORDER BY 1",
  );
  return rows.map(({ id }) => id);
}
