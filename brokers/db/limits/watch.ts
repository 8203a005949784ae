import type { Logger, Watched } from '@space/broker-kit';
import { QUIET_MS, type ServerAddress } from '@space/broker-kit/postgres';
import pg from 'pg';
import type { BrokerMetrics } from '../metrics.ts';
import { createGlances } from './glance.ts';
import {
  decideEnds,
  type EndReason,
  type ServerState,
  type SessionBounds,
  type TenantSession,
} from './sessions.ts';

/**
 * Ends tenants' sessions that hold too much of what all share. Its one session stays open and inside of a
 * transaction: when the table of locks is full nobody can log in, and nobody but who holds a lock already can read a
 * shared catalogue. Such a transaction without a snapshot keeps nothing from being cleaned up.
 */
export interface Watch {
  stop(): Promise<void>;
}

export interface WatchOptions {
  readonly address: Watched<ServerAddress>;
  readonly bounds: SessionBounds;
  readonly intervalMs: number;
  readonly log: Logger;
  readonly metrics: Pick<BrokerMetrics, 'sessionsEnded' | 'watchLooks'>;
  /** Called with the process of a session that was ended for its locks: on its way out it may keep them for minutes. */
  readonly onGreedy: (pid: number) => void;
}

/** The lock table is checked in between: one session takes a hundred thousand locks in a tenth of a second. */
const GLANCE_MS = 50;
/** A client whose session was ended for its locks reconnects at once. */
const ALERT_GLANCE_MS = 10;
const ALERT_MS = 60_000;
/** Looks after which the transaction restarts, so that its snapshot stays recent. */
const LOOKS_A_TRANSACTION = 500;
const STATEMENT_MS = 10_000;

/** Reading them takes the locks that are kept: pg_authid, pg_auth_members, pg_database, pg_db_role_setting, and their indexes. */
const HOLD = `SELECT (SELECT count(*) FROM pg_roles), (SELECT count(*) FROM pg_auth_members), (SELECT count(*) FROM pg_database)`;

const LOOK = `SELECT a.pid, a.usename::text AS role, coalesce(l.locks, 0) AS locks, coalesce(l.predicates, 0) AS predicates,
    greatest(0, coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0))::float8 AS "transactionSeconds",
    CASE WHEN a.state LIKE 'idle in transaction%'
      THEN greatest(0, extract(epoch FROM clock_timestamp() - a.state_change))::float8 ELSE 0 END AS "idleSeconds"
  FROM pg_stat_activity a
  JOIN pg_database d ON d.oid = a.datid AND d.datname = a.usename
  JOIN pg_roles me ON me.oid = d.datdba AND me.rolname = current_user
  LEFT JOIN (SELECT pid, count(*)::int AS locks, (count(*) FILTER (WHERE mode = 'SIReadLock'))::int AS predicates
             FROM pg_locks GROUP BY pid) l ON l.pid = a.pid
  WHERE a.pid <> pg_backend_pid()
    AND (l.locks >= 100 OR l.predicates > 0 OR a.xact_start < clock_timestamp() - interval '5 seconds')`;

/** Vacuum begins at half of what counts as full here. */
const STATE = `SELECT pg_notification_queue_usage() AS notifications,
    (SELECT max(mxid_age(datminmxid)) FROM pg_database WHERE datconnlimit <> -2) /
      (2 * current_setting('autovacuum_multixact_freeze_max_age')::float8) AS "rowLocks",
    ((SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock') /
      (current_setting('max_pred_locks_per_transaction')::float8 * current_setting('max_connections')::int))::float8 AS predicates,
    current_setting('max_locks_per_transaction')::int *
      (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS "lockCapacity"`;

/** Only in the database of the same name, which no other role can enter: never the broker's session, or a superuser's. */
const END = `SELECT pg_terminate_backend(a.pid) AS ended FROM pg_stat_activity a
  WHERE a.pid = $1 AND a.usename = $2 AND a.datname = $2`;

type Ended = Pick<TenantSession, 'pid' | 'role' | 'locks' | 'transactionSeconds'> & {
  readonly reason: EndReason;
};

export function startWatch({ address, bounds, intervalMs, log, metrics, onGreedy }: WatchOptions): Watch {
  const stopping = new AbortController();
  const held = holdSession(address);
  const endings = tellOfEndings({ log, metrics, onGreedy });
  let lost = false;
  const glances = createGlances({
    bound: bounds.locks,
    onEnd: (session) => endings.tell({ ...session, reason: 'locks', transactionSeconds: 0 }),
  });

  async function look(): Promise<void> {
    const client = await held.open();
    // Otherwise the transaction would go on seeing the sessions of its first look.
    await client.query('SELECT pg_stat_clear_snapshot()');
    const { rows: sessions } = await client.query<TenantSession>({ name: 'look', text: LOOK });
    const { rows: states } = await client.query<ServerState>({
      name: 'state',
      text: STATE,
    });
    const [state] = states;
    endings.stillThere(new Set(sessions.map(({ pid }) => pid)));
    for (const { session, reason } of state === undefined ? [] : decideEnds(sessions, state, bounds)) {
      await client.query({ name: 'end', text: END, values: [session.pid, session.role] });
      endings.tell({ ...session, reason });
    }
    await glances.begin(client);
    metrics.watchLooks.inc();
    await held.looked(client);
  }

  /** Until the next look is due, or so many more locks are taken that it is due at once. */
  async function untilNextLook(): Promise<void> {
    const due = performance.now() + intervalMs;
    for (let left = intervalMs; left > 0; left = due - performance.now()) {
      await pause(Math.min(endings.glanceMs(), left), stopping.signal);
      const client = held.current();
      if (client === undefined || stopping.signal.aborted || (await glances.isLookDue(client))) return;
    }
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await look();
        lost = false;
        await untilNextLook();
      } catch (error) {
        if (!lost) log.warn({ err: error }, 'the watch over sessions failed');
        lost = true;
        await held.recover();
        if (!stopping.signal.aborted) await pause(intervalMs, stopping.signal);
      }
    }
    await held
      .current()
      ?.end()
      .catch(() => undefined);
  }

  const ended = loop();
  return {
    stop: () => {
      stopping.abort();
      return ended;
    },
  };
}

/** Tells of each session that was ended once, and how soon the locks are to be looked at after that. */
function tellOfEndings({ log, metrics, onGreedy }: Pick<WatchOptions, 'log' | 'metrics' | 'onGreedy'>) {
  /** Sessions that a check has ended and that the last check still found. */
  let leaving = new Set<number>();
  let alertUntil = 0;
  return {
    stillThere(found: ReadonlySet<number>): void {
      leaving = new Set([...leaving].filter((pid) => found.has(pid)));
    },
    tell({ pid, role, locks, reason, transactionSeconds }: Ended): void {
      if (leaving.has(pid)) return;
      leaving.add(pid);
      metrics.sessionsEnded.labels(reason).inc();
      if (reason === 'locks') {
        alertUntil = performance.now() + ALERT_MS;
        onGreedy(pid);
      }
      log.warn(
        { database: role, reason, locks, transaction_seconds: Math.round(transactionSeconds) },
        'session ended',
      );
    },
    glanceMs: () => (performance.now() < alertUntil ? ALERT_GLANCE_MS : GLANCE_MS),
  };
}

/** The watch's one session, and the transaction that it is in, which is begun anew after some looks. */
function holdSession(address: Watched<ServerAddress>) {
  let client: pg.Client | undefined;
  let looks = 0;
  return {
    current: () => client,
    async open(): Promise<pg.Client> {
      client ??= await openSession(address);
      if (looks === 0) {
        await client.query('BEGIN');
        await client.query(HOLD);
      }
      return client;
    },
    async looked(opened: pg.Client): Promise<void> {
      looks += 1;
      if (looks < LOOKS_A_TRANSACTION) return;
      await opened.query('COMMIT');
      looks = 0;
    },
    /** One that still answers is kept: a new one could not log in while the table of locks is full. */
    async recover(): Promise<void> {
      looks = 0;
      const failed = client;
      client = undefined;
      if (failed === undefined) return;
      try {
        await failed.query('ROLLBACK');
        client = failed;
      } catch {
        await failed.end().catch(() => undefined);
      }
    },
  };
}

async function openSession(address: Watched<ServerAddress>): Promise<pg.Client> {
  await address.refresh();
  const { host, port, database, user, password, ssl } = address.current();
  const opened = new pg.Client({
    host,
    port,
    database,
    user,
    ssl,
    password: password.reveal(),
    application_name: 'space-db-broker-watch',
    keepAlive: true,
    keepAliveInitialDelayMillis: QUIET_MS,
    connectionTimeoutMillis: STATEMENT_MS,
    query_timeout: STATEMENT_MS,
    options: '-c search_path=pg_catalog -c idle_in_transaction_session_timeout=0 -c lock_timeout=1s',
  });
  opened.on('error', () => undefined);
  await opened.connect();
  return opened;
}

/** Until the time is over, or the watch is to stop. */
function pause(ms: number, stopping: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stopping.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stopping.addEventListener('abort', done);
  });
}
