import type { Session } from '@space/broker-kit/postgres';
import { type Admits, doorsOf, type QuotaState } from '../core/quota.ts';

/** A Capsule's limits; null means the broker's default. */
export interface Limits {
  readonly databaseBytes: number | null;
  readonly connections: number | null;
}

/** A Capsule's row, or the defaults if there is none. */
export interface LimitsRow extends Limits, QuotaState {
  readonly capsule: string;
  readonly used: number;
  /** Bytes in shared catalogues, outside its databases; included in `used`. */
  readonly shared: number;
  /** Bytes charged for dead rows in shared catalogues, and the time of that in milliseconds. */
  readonly written: number;
  readonly writtenAt: number;
}

const COLUMNS = `c.capsule_id AS capsule, l.database_bytes::float8 AS "databaseBytes", l.connections,
  coalesce(l.used_bytes, 0)::float8 AS used, coalesce(l.shared_bytes, 0)::float8 AS shared,
  coalesce(l.written_bytes, 0)::float8 AS written, coalesce(l.written_ms, 0)::float8 AS "writtenAt", coalesce(l.door, 'open') AS door, coalesce(l.tries, 0) AS tries,
  coalesce(l.ceiling, 0)::float8 AS ceiling, coalesce(l.until_ms, 0)::float8 AS until`;

export async function readLimits(session: Session, capsule: string): Promise<LimitsRow | undefined> {
  const [row] = await session.read<LimitsRow>(
    'read limits',
    `SELECT ${COLUMNS} FROM broker.capsule c LEFT JOIN broker.capsule_limits l USING (capsule_id)
     WHERE c.capsule_id = $1`,
    [capsule],
  );
  return row;
}

/** What the quota of a Capsule admits to each of its databases, by the last sweep. */
export async function readAdmits(session: Session, capsule: string, fallback: number): Promise<Admits> {
  const row = await readLimits(session, capsule);
  return doorsOf(row?.door ?? 'open', row?.connections ?? fallback);
}

/** The limits of every Capsule that has a database or is not open, except those that are being moved away. */
export function allLimits(session: Session): Promise<LimitsRow[]> {
  return session.read(
    'read all limits',
    `SELECT ${COLUMNS} FROM broker.capsule c LEFT JOIN broker.capsule_limits l USING (capsule_id)
     WHERE (coalesce(l.door, 'open') <> 'open' OR coalesce(l.used_bytes, 0) > 0
         OR EXISTS (SELECT FROM broker.database d WHERE d.capsule_id = c.capsule_id AND d.state = 'ready'))
       AND NOT EXISTS (SELECT FROM broker.departure x WHERE x.capsule_id = c.capsule_id)`,
  );
}

export async function writeLimits(session: Session, capsule: string, limits: Limits): Promise<void> {
  await session.run(
    'write limits',
    `INSERT INTO broker.capsule_limits (capsule_id, database_bytes, connections) VALUES ($1, $2, $3)
     ON CONFLICT (capsule_id) DO UPDATE SET database_bytes = $2, connections = $3`,
    [capsule, limits.databaseBytes, limits.connections],
  );
}

/** Stores the result of a sweep; false if another replica was faster. */
export async function writeUsage(
  session: Session,
  before: LimitsRow,
  { used, shared, written, writtenAt }: Pick<LimitsRow, 'used' | 'shared' | 'written' | 'writtenAt'>,
  state: QuotaState,
): Promise<boolean> {
  await session.run(
    'make limits',
    'INSERT INTO broker.capsule_limits (capsule_id) VALUES ($1) ON CONFLICT (capsule_id) DO NOTHING',
    [before.capsule],
  );
  const rows = await session.run(
    'write usage',
    `UPDATE broker.capsule_limits SET used_bytes = $2, door = $3, tries = $4, ceiling = $5, until_ms = $6,
       shared_bytes = $9, written_bytes = $10, written_ms = $11
     WHERE capsule_id = $1 AND door = $7 AND tries = $8 RETURNING 1`,
    [
      before.capsule,
      used,
      state.door,
      state.tries,
      state.ceiling,
      state.until,
      before.door,
      before.tries,
      shared,
      written,
      writtenAt,
    ],
  );
  return rows.length === 1;
}

/** The connections that were granted to databases of Assistants. */
export interface Granted {
  /** Connections granted to the databases of all other Capsules together. */
  readonly others: number;
  /** The number of the Capsule's databases. */
  readonly own: number;
  /**
   * The server's connections for all databases of Assistants. It is what remains after the reserved connections, which
   * include the brokers' own.
   */
  readonly capacity: number;
}

export async function connectionsGranted(
  session: Session,
  capsule: string,
  fallback: number,
): Promise<Granted> {
  const [row] = await session.read<Granted>(
    'sum connections',
    `SELECT (coalesce(sum(coalesce(l.connections, $2::int)) FILTER (WHERE d.capsule_id <> $1), 0)
         + (SELECT coalesce(sum(a.connections), 0) FROM broker.arrival a WHERE a.capsule_id <> $1 AND NOT a.landed))::int AS others,
       (count(*) FILTER (WHERE d.capsule_id = $1))::int AS own,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - coalesce(2 * current_setting('reserved_connections', true)::int, 30) AS capacity
     FROM broker.database d LEFT JOIN broker.capsule_limits l USING (capsule_id)
     WHERE d.state = 'ready' AND d.app_id <> ''`,
    [capsule, fallback],
  );
  if (row === undefined) throw new Error('an aggregate without a row');
  return row;
}

export interface Sized {
  readonly capsule: string;
  readonly name: string;
  /** Increases with every transaction that ended in the database. */
  readonly transactions: number;
  /** Whether a transaction is open in the database. */
  readonly busy: boolean;
  readonly open: boolean;
  readonly limit: number;
  /** Whether it is shut by an administrator, or until its sessions have ended, whatever the quota says. */
  readonly held: boolean;
}

/**
 * Distinguishes databases that may have grown from those that cannot have, so that no database has to be opened for
 * that.
 */
export function observeActivity(session: Session): Promise<Sized[]> {
  return session.read(
    'observe activity',
    `SELECT w.capsule_id AS capsule, w.name, b.datid IS NOT NULL AS busy, d.datallowconn AS open, d.datconnlimit AS limit,
       w.closed OR w.evicting AND NOT d.datallowconn AS held,
       (pg_stat_get_db_xact_commit(d.oid) + pg_stat_get_db_xact_rollback(d.oid))::float8 AS transactions
     FROM broker.database w JOIN pg_database d ON d.datname = w.name
     LEFT JOIN (SELECT DISTINCT datid FROM pg_stat_activity WHERE xact_start IS NOT NULL) b ON b.datid = d.oid
     WHERE w.state = 'ready'
       AND NOT EXISTS (SELECT FROM broker.departure x WHERE x.capsule_id = w.capsule_id)`,
  );
}

/** Bytes on disk by name; a database that is dropped meanwhile has none. */
export async function measure(session: Session, names: readonly string[]): Promise<Map<string, number>> {
  const rows = await session.read<{ name: string; bytes: number | null }>(
    'measure databases',
    `SELECT datname::text AS name, pg_database_size(oid)::float8 AS bytes FROM pg_database
     WHERE datname = ANY ($1) AND datconnlimit <> -2`,
    [names],
  );
  return new Map(rows.map(({ name, bytes }) => [name, bytes ?? 0]));
}

/**
 * Stores the size of the server's shared catalogues and returns the previous one, so that only one replica sees an
 * increase.
 */
export async function noteShared(session: Session, bytes: number): Promise<number> {
  const [row] = await session.run<{ before: number }>(
    'note shared catalogues',
    `WITH noted AS (SELECT bytes FROM broker.shared_catalogues FOR UPDATE)
     UPDATE broker.shared_catalogues SET bytes = $1 FROM noted RETURNING noted.bytes::float8 AS before`,
    [bytes],
  );
  return row?.before ?? bytes;
}
