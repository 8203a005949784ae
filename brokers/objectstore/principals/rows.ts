import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { expectOne } from '@space/broker-kit/principals';
import type { WorkloadRow } from './decide.ts';

/** All statements about stores and workloads. A caller that changes a row has locked it in the same transaction. */

/** An Assistant of a Capsule, by their ids. */
export interface Workload {
  readonly capsule: string;
  readonly app: string;
}

/**
 * Stores the quota of the Capsule's present incarnation, and creates its row at the first provision; null means the
 * broker's default.
 */
export async function putStore(
  session: Session,
  capsule: string,
  to: { incarnation: number; prefix: string; quotaBytes: number | null },
): Promise<void> {
  await session.run(
    'put store',
    `INSERT INTO broker.store (capsule_id, life, place, quota_bytes) VALUES ($1, $2, $3, $4)
     ON CONFLICT (capsule_id) DO UPDATE SET life = excluded.life, place = excluded.place,
       quota_bytes = excluded.quota_bytes
     WHERE (store.life, store.place, store.quota_bytes) IS DISTINCT FROM
       (excluded.life, excluded.place, excluded.quota_bytes)`,
    [capsule, to.incarnation, to.prefix, to.quotaBytes],
  );
}

interface Store {
  readonly incarnation: number;
  readonly prefix: string;
  /** Null means the broker's default. */
  readonly quotaBytes: number | null;
  /** The MAC over principal, incarnation and prefix. */
  readonly mac: Buffer | null;
}

export async function storeOf(session: Session, capsule: string): Promise<Store> {
  const [row] = await session.run<Store & { [column: string]: unknown }>(
    'read store',
    'SELECT life AS incarnation, place AS prefix, quota_bytes::float8 AS "quotaBytes", mac FROM broker.store WHERE capsule_id = $1',
    [capsule],
  );
  if (row === undefined) throw new Error('a Capsule has no store');
  return row;
}

/** Everything that a Capsule's authority depends on, by the digest of its principal. */
export async function findCapsule(
  session: Session,
  digest: TokenDigest,
): Promise<(Omit<Store, 'quotaBytes'> & { readonly capsule: string }) | undefined> {
  const [row] = await session.run<Omit<Store, 'quotaBytes'> & { readonly capsule: string }>(
    'find principal',
    `SELECT c.capsule_id AS capsule, c.life AS incarnation, s.place AS prefix, s.mac
     FROM broker.capsule c JOIN broker.store s ON s.capsule_id = c.capsule_id
     WHERE c.principal = $1`,
    [digest],
  );
  return row;
}

export async function putCapsuleMac(session: Session, capsule: string, mac: Buffer): Promise<void> {
  const rows = await session.run(
    'bind capsule',
    'UPDATE broker.store SET mac = $2 WHERE capsule_id = $1 RETURNING 1',
    [capsule, mac],
  );
  expectOne(rows);
}

const COLUMNS = 'state, life AS incarnation, generation, place AS prefix, principal';

export async function lockWorkload(
  session: Session,
  { capsule, app }: Workload,
): Promise<WorkloadRow | undefined> {
  const [row] = await session.read<WorkloadRow & { [column: string]: unknown }>(
    'lock workload',
    `SELECT ${COLUMNS} FROM broker.workload WHERE capsule_id = $1 AND app_id = $2 FOR UPDATE`,
    [capsule, app],
  );
  return row;
}

export interface Registration {
  readonly incarnation: number;
  readonly generation: number;
  readonly prefix: string;
  readonly principal: TokenDigest;
  /** The MAC over all of it and its owner. */
  readonly mac: Buffer;
}

/** Inserts the row; returns false if another transaction was faster, whose row can then be locked. */
export async function insertWorkload(
  session: Session,
  { capsule, app }: Workload,
  to: Registration,
): Promise<boolean> {
  const rows = await session.run(
    'insert workload',
    `INSERT INTO broker.workload (capsule_id, app_id, state, life, generation, place, principal, mac)
     VALUES ($1, $2, 'ready', $3, $4, $5, $6, $7) ON CONFLICT (capsule_id, app_id) DO NOTHING RETURNING 1`,
    [capsule, app, to.incarnation, to.generation, to.prefix, to.principal, to.mac],
  );
  return rows.length === 1;
}

/** Compare-and-swap: a tombstone becomes a workload again, with another prefix. */
export async function reviveWorkload(
  session: Session,
  { capsule, app }: Workload,
  to: Registration,
): Promise<void> {
  const rows = await session.run(
    'revive workload',
    `UPDATE broker.workload SET state = 'ready', life = $3, generation = $4, place = $5, principal = $6, mac = $7,
       dropped_with_capsule = false, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND state = 'dropped' AND generation = $4 - 1 RETURNING 1`,
    [capsule, app, to.incarnation, to.generation, to.prefix, to.principal, to.mac],
  );
  expectOne(rows);
}

/** Compare-and-swap of a ready workload's principal. */
export async function replaceWorkloadPrincipal(
  session: Session,
  { capsule, app }: Workload,
  from: TokenDigest,
  to: Pick<Registration, 'principal' | 'mac'>,
): Promise<void> {
  const rows = await session.run(
    'replace workload principal',
    `UPDATE broker.workload SET principal = $4, mac = $5, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND principal = $3 AND state = 'ready' RETURNING 1`,
    [capsule, app, from, to.principal, to.mac],
  );
  expectOne(rows);
}

/** Ends access: the principal is retired, and the prefix is marked as dead. */
export async function markDropping(session: Session, { capsule, app }: Workload): Promise<void> {
  await session.run(
    'retire workload principal',
    `INSERT INTO broker.retired_principal (principal, capsule_id)
     SELECT principal, capsule_id FROM broker.workload WHERE capsule_id = $1 AND app_id = $2 AND principal IS NOT NULL
     ON CONFLICT DO NOTHING`,
    [capsule, app],
  );
  const rows = await session.run<{ prefix: string }>(
    'mark workload dropping',
    `UPDATE broker.workload SET state = 'dropping', principal = NULL, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND state = 'ready' RETURNING place AS prefix`,
    [capsule, app],
  );
  expectOne(rows);
  await noteDeadPrefix(session, rows[0]?.prefix ?? '');
}

export async function markDropped(session: Session, { capsule, app }: Workload): Promise<void> {
  const rows = await session.run(
    'mark workload dropped',
    `UPDATE broker.workload SET state = 'dropped', changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND app_id = $2 AND state = 'dropping' RETURNING 1`,
    [capsule, app],
  );
  expectOne(rows);
}

/** Ends access to everything that the Capsule still has, and marks its own prefix as dead. */
export async function markCapsuleDropping(session: Session, capsule: string, prefix: string): Promise<void> {
  await session.run(
    'retire workload principals',
    `INSERT INTO broker.retired_principal (principal, capsule_id)
     SELECT principal, capsule_id FROM broker.workload WHERE capsule_id = $1 AND principal IS NOT NULL
     ON CONFLICT DO NOTHING`,
    [capsule],
  );
  await session.run(
    'mark workloads dropping',
    `UPDATE broker.workload SET state = 'dropping', principal = NULL, dropped_with_capsule = true,
       changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state <> 'dropped'`,
    [capsule],
  );
  await noteDeadPrefix(session, prefix);
}

export async function markAllDropped(session: Session, capsule: string): Promise<void> {
  await session.run(
    'mark workloads dropped',
    `UPDATE broker.workload SET state = 'dropped', changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state = 'dropping'`,
    [capsule],
  );
}

/** The workloads that the drop of this incarnation of the Capsule has dropped in all of its attempts, sorted. */
export async function droppedWithCapsule(
  session: Session,
  capsule: string,
  incarnation: number,
): Promise<string[]> {
  const rows = await session.run<{ app: string }>(
    'list dropped workloads',
    `SELECT app_id AS app FROM broker.workload
     WHERE capsule_id = $1 AND life = $2 AND dropped_with_capsule AND state = 'dropped' ORDER BY app_id COLLATE "C"`,
    [capsule, incarnation],
  );
  return rows.map(({ app }) => app);
}

async function noteDeadPrefix(session: Session, prefix: string): Promise<void> {
  await session.run(
    'note dead place',
    'INSERT INTO broker.dead_place (place) VALUES ($1) ON CONFLICT DO NOTHING',
    [prefix],
  );
}
