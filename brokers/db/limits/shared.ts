import type { Session } from '@space/broker-kit/postgres';
import { noteShared } from './rows.ts';

/** Bytes of a row in `pg_shdepend` with its indexes: measured as 75 for a grant and 98 for a large object. */
const DEPENDENCY_BYTES = 100;
/** Dependencies are counted again when the catalogue has changed by this many bytes and by a twentieth. */
const STEP_BYTES = 2 ** 20;
/** The server reuses the space of dead rows, so the charge for them is halved in this many milliseconds. */
const HALF_MS = 600_000;

/** What tenants use of the server's shared catalogues, which belong to no database. */
export interface Shared {
  /** The size of all of these catalogues in bytes. */
  readonly bytes: number;
  /** Bytes by database for dependencies of its objects, which a drop of the database has to delete. */
  readonly dependencies: ReadonlyMap<string, number>;
  /** Bytes by database for settings of its role. */
  readonly settings: ReadonlyMap<string, number>;
  /** Bytes by which the catalogues, except the dependencies, have grown since any replica last looked. */
  readonly growth: number;
  /** Databases whose tenants have written there in transactions that are open since the last look. */
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
 * Measures the shared catalogues. Stored rows are charged to their owner. A tenant may also write megabytes into a
 * setting and remove them, any number of times; the dead rows have no owner, so the growth is charged in equal parts to
 * those who were seen writing.
 */
export class SharedCatalogues {
  #lookedAt: number | undefined;
  #counted: { readonly bytes: number; readonly rows: ReadonlyMap<string, number> } | undefined;

  /** `all` counts dependencies even if they seem unchanged. */
  async look(session: Session, all: boolean): Promise<Shared> {
    const { now, bytes, depending, noted, writers } = await observe(session, this.#lookedAt);
    const others = bytes - depending;
    const before = others === noted ? noted : await noteShared(session, others);
    // Growth from before the first look has an unknown cause, so it is not charged.
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
 * A session that has only kept its lock since the last look has written nothing in between. Every creation of an object
 * writes `pg_shdepend` under a short lock, so holders of that lock do not count as writers.
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

/** The rest of a charge for dead rows after a time in milliseconds. */
export function stillCharged(bytes: number, at: number, now: number): number {
  return Math.floor(bytes * 0.5 ** (Math.max(0, now - at) / HALF_MS));
}
