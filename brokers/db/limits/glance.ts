import type pg from 'pg';
import type { TenantSession } from './sessions.ts';

/**
 * Looks at the table of locks between two looks of the watch, and ends who holds more of it than one workload may: seen
 * only when the table is full, it has failed everybody's statements by then.
 */
interface Glances {
  /** Remembers how many locks there are: an increase is what makes the next look due. */
  begin(client: pg.Client): Promise<void>;
  /** Ends who holds too many; whether there are so many more in all that a look must decide. */
  isLookDue(client: pg.Client): Promise<boolean>;
}

type Seen = Pick<TenantSession, 'pid' | 'role' | 'locks'>;

interface GlanceOptions {
  /** Locks that one workload's sessions may hold together. */
  readonly bound: number;
  readonly onEnd: (session: Seen) => void;
}

/**
 * One statement, which ends whom it sees: a table that fills does not wait for an answer of ours. It ends sessions in the
 * database of the same name alone, which no other role can enter: never the broker's, or a superuser's. The transaction that
 * it runs in would go on seeing the sessions of its beginning, so those are forgotten first, and `held` is read first. Whose
 * a session is, is asked of those alone that hold too many: the statement runs all the time.
 */
const GLANCE = `WITH anew AS MATERIALIZED (SELECT pg_stat_clear_snapshot()),
  held AS MATERIALIZED (SELECT pid, count(*)::int AS locks FROM anew, pg_locks GROUP BY pid),
  ended AS MATERIALIZED (
    SELECT a.pid, d.datname::text AS role, held.locks, pg_terminate_backend(a.pid)
    FROM held CROSS JOIN LATERAL pg_stat_get_activity(held.pid) a
    JOIN pg_database d ON d.oid = a.datid
    JOIN pg_roles tenant ON tenant.oid = a.usesysid AND tenant.rolname = d.datname
    JOIN pg_roles me ON me.oid = d.datdba AND me.rolname = current_user
    WHERE held.locks > $1)
  SELECT (SELECT coalesce(sum(locks), 0)::int FROM held) AS locks,
    (SELECT json_agg(json_build_object('pid', pid, 'role', role, 'locks', locks)) FROM ended) AS ended`;

interface Glance {
  /** The number of locks on the whole server. */
  readonly locks: number;
  readonly ended: readonly Seen[] | null;
}

export function createGlances({ bound, onEnd }: GlanceOptions): Glances {
  /** The fewest locks since the last look: those of whom it has ended are on their way out. */
  let fewest = 0;

  async function glance(client: pg.Client): Promise<number> {
    const { rows } = await client.query<Glance>({ name: 'glance', text: GLANCE, values: [bound] });
    const [{ locks, ended } = { locks: 0, ended: null }] = rows;
    for (const session of ended ?? []) onEnd(session);
    return locks;
  }

  return {
    begin: async (client) => {
      fewest = await glance(client);
    },
    isLookDue: async (client) => {
      const locks = await glance(client);
      const isDue = locks > fewest + bound / 2;
      fewest = Math.min(fewest, locks);
      return isDue;
    },
  };
}
