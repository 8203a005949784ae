import type pg from 'pg';
import type { EndReason, TenantSession } from './sessions.ts';

/**
 * Checks the lock table between two checks of the watch, and ends sessions of a workload that holds too many locks, or
 * one that everybody waits for. Before the next check of the watch, a full table would fail everybody's statements.
 */
interface Glances {
  /** Stores the number of locks; an increase makes the next check due. */
  begin(client: pg.Client): Promise<void>;
  /** Ends sessions with such locks. Returns whether the number of locks has grown so much that a check is due. */
  isLookDue(client: pg.Client): Promise<boolean>;
}

interface Seen extends Pick<TenantSession, 'pid' | 'role' | 'locks'> {
  readonly reason: EndReason & ('locks' | 'catalogue_locks');
}

interface GlanceOptions {
  /** The most locks that the sessions of one workload may hold together. */
  readonly bound: number;
  readonly onEnd: (session: Seen) => void;
  /** Called for each role that is seen committing notifications. */
  readonly onNotifying?: (role: string) => void;
  /** Called while somebody who is no tenant waits for an exclusive lock on a shared catalogue. */
  readonly onOwnerWaits?: () => Promise<void>;
}

/**
 * A lock on a shared catalogue or on a database which makes others wait, whoever has it or waits for it: every login
 * needs some of them. A tenant owns neither, so it has no use for such a lock; but PostgreSQL takes it for a statement
 * before it finds that this is not permitted. The object 0 is the queue of notifications.
 */
const BARRING = `database = 0 AND (locktype = 'relation' OR locktype = 'object' AND objid <> 0)
      AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')`;

/** The lock of whoever commits notifications: the object 0 among databases (1262). */
const NOTIFYING = "classid = 1262 AND objid = 0 AND locktype = 'object' AND granted";

/**
 * One statement, which also ends the sessions that it finds, since a table that fills does not wait for our answer. It
 * reads the locks once and stores none of them: there may be hundreds of thousands, and more are taken meanwhile. It ends
 * only sessions in the database with the name of their role, which no other role can enter, so never the broker's or a
 * superuser's. Inside a transaction the list of sessions is a snapshot, so it is cleared first. The owner of a
 * session is read only for sessions with such locks, since the statement runs very often. Locks of a prepared transaction
 * have no process id, for which the server would return every session.
 */
const GLANCE = `WITH anew AS MATERIALIZED (SELECT pg_stat_clear_snapshot()),
  held AS MATERIALIZED (SELECT pid, count(*)::int AS locks, bool_or(${BARRING}) AS barring, bool_or(${NOTIFYING}) AS notifying,
      bool_or(database = 0 AND locktype = 'relation' AND mode = 'AccessExclusiveLock'
        AND waitstart < clock_timestamp() - interval '2 seconds') AS waits
    FROM anew, pg_locks WHERE pid IS NOT NULL GROUP BY pid),
  ended AS MATERIALIZED (
    SELECT a.pid, d.datname::text AS role, held.locks,
      CASE WHEN held.barring THEN 'catalogue_locks' ELSE 'locks' END AS reason, pg_terminate_backend(a.pid)
    FROM held CROSS JOIN LATERAL pg_stat_get_activity(held.pid) a
    JOIN pg_database d ON d.oid = a.datid
    JOIN pg_roles tenant ON tenant.oid = a.usesysid AND tenant.rolname = d.datname
    JOIN pg_roles me ON me.oid = d.datdba AND me.rolname = current_user
    WHERE held.locks > $1 OR held.barring),
  other AS MATERIALIZED (SELECT * FROM held WHERE pid NOT IN (SELECT pid FROM ended))
  SELECT (SELECT coalesce(sum(locks), 0)::int FROM other) AS locks,
    (SELECT json_agg(json_build_object('pid', pid, 'role', role, 'locks', locks, 'reason', reason)) FROM ended) AS ended,
    (SELECT json_agg(r.rolname) FROM held CROSS JOIN LATERAL pg_stat_get_activity(held.pid) a
     JOIN pg_roles r ON r.oid = a.usesysid WHERE held.notifying) AS notifying,
    EXISTS (SELECT FROM other WHERE waits) AS "ownerWaits"`;

interface Glance {
  /** The number of locks on the server, without those of sessions that it has just ended. */
  readonly locks: number;
  readonly ended: readonly Seen[] | null;
  /** Roles that are committing notifications. */
  readonly notifying: readonly string[] | null;
  readonly ownerWaits: boolean;
}

export function createGlances({
  bound,
  onEnd,
  onNotifying = () => undefined,
  onOwnerWaits = async () => undefined,
}: GlanceOptions): Glances {
  /** The fewest locks since the last check; sessions that were ended still release theirs. */
  let fewest = 0;

  async function glance(client: pg.Client): Promise<number> {
    const { rows } = await client.query<Glance>({ name: 'glance', text: GLANCE, values: [bound] });
    const [seen] = rows;
    for (const role of seen?.notifying ?? []) onNotifying(role);
    for (const session of seen?.ended ?? []) onEnd(session);
    if (seen?.ownerWaits) await onOwnerWaits();
    return seen?.locks ?? 0;
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
