import type pg from 'pg';
import type { TenantSession } from './sessions.ts';

/**
 * Checks the lock table between two checks of the watch, and ends sessions of a workload that holds too many locks. A
 * full table would fail everybody's statements before the next check of the watch.
 */
interface Glances {
  /** Stores the number of locks; an increase makes the next check due. */
  begin(client: pg.Client): Promise<void>;
  /** Ends sessions with too many locks. Returns whether the number of locks has grown so much that a check is due. */
  isLookDue(client: pg.Client): Promise<boolean>;
}

type Seen = Pick<TenantSession, 'pid' | 'role' | 'locks'>;

interface GlanceOptions {
  /** The most locks that the sessions of one workload may hold together. */
  readonly bound: number;
  readonly onEnd: (session: Seen) => void;
  /** Called for each role that is seen committing notifications. */
  readonly onNotifying?: (role: string) => void;
}

/**
 * One statement, which also ends the sessions that it finds, since a table that fills does not wait for our answer. It
 * ends only sessions in the database with the name of their role, which no other role can enter, so never the broker's
 * or a superuser's. Inside a transaction the list of sessions is a snapshot, so it is cleared first. The owner of a
 * session is read only for sessions with too many locks, since the statement runs very often.
 */
const GLANCE = `WITH anew AS MATERIALIZED (SELECT pg_stat_clear_snapshot()),
  lock AS MATERIALIZED (SELECT l.* FROM anew, pg_locks l),
  held AS MATERIALIZED (SELECT pid, count(*)::int AS locks FROM lock GROUP BY pid),
  ended AS MATERIALIZED (
    SELECT a.pid, d.datname::text AS role, held.locks, pg_terminate_backend(a.pid)
    FROM held CROSS JOIN LATERAL pg_stat_get_activity(held.pid) a
    JOIN pg_database d ON d.oid = a.datid
    JOIN pg_roles tenant ON tenant.oid = a.usesysid AND tenant.rolname = d.datname
    JOIN pg_roles me ON me.oid = d.datdba AND me.rolname = current_user
    WHERE held.locks > $1)
  SELECT (SELECT coalesce(sum(locks), 0)::int FROM held) AS locks,
    (SELECT json_agg(json_build_object('pid', pid, 'role', role, 'locks', locks)) FROM ended) AS ended,
    (SELECT json_agg(r.rolname) FROM lock CROSS JOIN LATERAL pg_stat_get_activity(lock.pid) a
     JOIN pg_roles r ON r.oid = a.usesysid
     WHERE lock.locktype = 'object' AND lock.classid = 1262 AND lock.objid = 0 AND lock.granted) AS notifying`;

interface Glance {
  /** The number of locks on the server. */
  readonly locks: number;
  readonly ended: readonly Seen[] | null;
  /** Roles that are committing notifications: they have locked the object 0 among databases (1262). */
  readonly notifying: readonly string[] | null;
}

export function createGlances({ bound, onEnd, onNotifying = () => undefined }: GlanceOptions): Glances {
  /** The fewest locks since the last check; sessions that were ended still release theirs. */
  let fewest = 0;

  async function glance(client: pg.Client): Promise<number> {
    const { rows } = await client.query<Glance>({ name: 'glance', text: GLANCE, values: [bound] });
    const [{ locks, ended, notifying } = { locks: 0, ended: null, notifying: null }] = rows;
    for (const role of notifying ?? []) onNotifying(role);
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
