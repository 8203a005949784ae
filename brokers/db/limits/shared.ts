import type { Session } from '@space/broker-kit/postgres';
import { noteShared } from './rows.ts';

/** What a row of `pg_shdepend` takes with its indexes: 75 bytes for a grant, 98 for a large object, as measured. */
const DEPENDENCY_BYTES = 100;
/** Counted anew when it has changed by as much, and by a twentieth. */
const STEP_BYTES = 2 ** 20;
/** The server cleans up dead rows and uses their space again: what was charged for them is halved in this time. */
const HALF_MS = 600_000;

/** What tenants have in the catalogues of the whole server, which belong to no database. */
export interface Shared {
  /** The size of all of these catalogues. */
  readonly bytes: number;
  /** By database: for what depends on its objects, which a drop of the database has to delete. */
  readonly dependencies: ReadonlyMap<string, number>;
  /** By database: in settings of its role. */
  readonly settings: ReadonlyMap<string, number>;
  /** What all but the dependencies have grown by since any replica looked last. */
  readonly growth: number;
  /** Databases whose tenants have written there since the last look, in transactions that are open. */
  readonly writers: ReadonlySet<string>;
}

interface Observed {
  readonly now: number;
  readonly bytes: number;
  readonly depending: number;
  readonly noted: number;
  readonly writers: string[];
}

type Sizes = readonly { readonly name: string; readonly bytes: number }[];
const byName = (rows: Sizes) => new Map(rows.map(({ name, bytes }) => [name, bytes]));

/**
 * Looks at these catalogues. What is stored there is charged to whoever has it. A tenant may also set any of its settings to
 * a value of megabytes as often as it likes and take that back: the dead rows belong to nobody, and what they have made
 * the catalogues grow by is charged to whoever was seen writing, in equal parts.
 */
export class SharedCatalogues {
  #lookedAt: number | undefined;
  #counted: { readonly bytes: number; readonly rows: ReadonlyMap<string, number> } | undefined;

  /** `all` counts the dependencies, whether or not they seem to have changed. */
  async look(session: Session, all: boolean): Promise<Shared> {
    const { now, bytes, depending, noted, writers } = await observe(session, this.#lookedAt);
    const others = bytes - depending;
    const before = others === noted ? noted : await noteShared(session, others);
    // Since when it grew, and by whom, is not known of the time before.
    const growth = this.#lookedAt === undefined ? 0 : Math.max(0, others - before);
    this.#lookedAt = now;
    return {
      bytes,
      dependencies: await this.#dependencies(session, depending, all),
      settings: byName(await session.read('measure settings', SETTINGS)),
      growth,
      writers: new Set(writers),
    };
  }

  async #dependencies(session: Session, bytes: number, all: boolean): Promise<ReadonlyMap<string, number>> {
    const counted = this.#counted;
    const step = Math.max(STEP_BYTES, (counted?.bytes ?? 0) / 20);
    if (counted !== undefined && !all && Math.abs(bytes - counted.bytes) < step) return counted.rows;
    const rows = byName(await session.read('count dependencies', DEPENDENCIES, [DEPENDENCY_BYTES]));
    this.#counted = { bytes, rows };
    return rows;
  }
}

/** Few settings are the broker's own. */
const SETTINGS = `SELECT r.rolname::text AS name, sum(pg_column_size(s.setconfig))::float8 AS bytes
  FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
  GROUP BY 1 HAVING sum(pg_column_size(s.setconfig)) > 4096`;

const DEPENDENCIES = `SELECT d.datname::text AS name, count(*)::float8 * $1 AS bytes
  FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid GROUP BY 1`;

/**
 * Who has only kept a lock since the last look has written nothing meanwhile. `pg_shdepend` is written by whoever makes an
 * object, under a lock that is gone at once: who is seen there is not who wrote.
 */
async function observe(session: Session, since = 0): Promise<Observed> {
  const [row] = await session.read<Observed>(
    'observe shared catalogues',
    `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now,
       (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relisshared AND relkind = 'r')::float8 AS bytes,
       pg_total_relation_size('pg_shdepend')::float8 AS depending,
       (SELECT bytes FROM broker.shared_catalogues)::float8 AS noted,
       array(SELECT DISTINCT a.usename::text FROM pg_locks l JOIN pg_stat_activity a USING (pid)
             WHERE l.locktype = 'relation' AND l.database = 0 AND l.mode = 'RowExclusiveLock' AND a.usename = a.datname
             AND l.relation <> 'pg_shdepend'::regclass
             AND l.relation IN (SELECT oid FROM pg_class WHERE relisshared)
             AND (a.state = 'active' OR a.state_change >= to_timestamp($1::float8 / 1000))) AS writers`,
    [since],
  );
  if (row === undefined) throw new Error('an aggregate without a row');
  return row;
}

/** What is still charged of what was charged at a time for dead rows; times in milliseconds. */
export function stillCharged(bytes: number, at: number, now: number): number {
  return Math.floor(bytes * 0.5 ** (Math.max(0, now - at) / HALF_MS));
}
