import type { Logger, Watched } from '@space/broker-kit';
import type { ServerAddress } from '@space/broker-kit/postgres';
import type { BrokerMetrics } from '../metrics.ts';
import type { TellEnded } from './endings.ts';
import { createGlances } from './glance.ts';
import { holdSession } from './held-session.ts';
import { Notifiers } from './notifiers.ts';
import { decideEnds, type EndReason, type SessionBounds, type TenantSession } from './sessions.ts';
import { STATE, type State } from './state.ts';

/** Ends tenants' sessions that use too much of what all sessions share, or that all others wait for. */
export interface Watch {
  stop(): Promise<void>;
}

export interface WatchOptions {
  readonly address: Watched<ServerAddress>;
  readonly bounds: SessionBounds;
  readonly intervalMs: number;
  readonly log: Logger;
  readonly metrics: Pick<BrokerMetrics, 'watchLooks'>;
  readonly tellEnded: TellEnded;
  /**
   * Called with the process id of a session that was ended for its locks; it may keep them for minutes while it ends.
   */
  readonly onGreedy: (pid: number) => void;
}

/**
 * Milliseconds between two checks of the lock table, since one session can take a hundred thousand locks in a tenth of
 * a second.
 */
const GLANCE_MS = 50;
/** The same after a session was ended for its locks, since its client reconnects at once. */
const ALERT_GLANCE_MS = 10;
const ALERT_MS = 60_000;

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
    AND (l.locks >= 100 OR l.predicates > 0 OR a.xact_start < clock_timestamp() - interval '5 seconds'
      OR (a.usename = $1 AND a.xact_start IS NOT NULL))`;
/**
 * Ends a session only in the database with the name of its role, which no other role can enter, so never the broker's
 * or a superuser's.
 */
const END = `SELECT pg_terminate_backend(a.pid) AS ended FROM pg_stat_activity a
  WHERE a.pid = $1 AND a.usename = $2 AND a.datname = $2`;

type Ended = Pick<TenantSession, 'pid' | 'role' | 'locks' | 'transactionSeconds'> & {
  readonly reason: EndReason;
};

export function startWatch(options: WatchOptions): Watch {
  const { address, bounds, intervalMs, log, metrics } = options;
  const stopping = new AbortController();
  const held = holdSession(address);
  const notifiers = new Notifiers();
  const endings = tellOfEndings(options);
  let lost = false;
  const glances = createGlances({
    bound: bounds.locks,
    onEnd: (session) => endings.tell({ ...session, transactionSeconds: 0 }),
    onNotifying: (role) => notifiers.note(role),
    onOwnerWaits: () => held.letGo(),
  });

  async function look(): Promise<void> {
    const client = await held.open();
    // Without this, the transaction would keep seeing the sessions of its first check.
    await client.query('SELECT pg_stat_clear_snapshot()');
    const { rows: states } = await client.query<State>({ name: 'state', text: STATE });
    const state = states.map((one) => ({ ...one, notifier: notifiers.look(one.notifications) }))[0];
    const values = [state?.notifier ?? ''];
    const { rows: sessions } = await client.query<TenantSession>({ name: 'look', text: LOOK, values });
    endings.stillThere(new Set(sessions.map(({ pid }) => pid)));
    for (const { session, reason } of state === undefined ? [] : decideEnds(sessions, state, bounds)) {
      await client.query({ name: 'end', text: END, values: [session.pid, session.role] });
      endings.tell({ ...session, reason });
    }
    await glances.begin(client);
    metrics.watchLooks.inc();
  }

  /** Waits until the next check is due, or until so many locks are taken that it is due at once. */
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

/** Reports each ended session once. Returns how soon the lock table must be checked again. */
function tellOfEndings({ tellEnded, onGreedy }: Pick<WatchOptions, 'tellEnded' | 'onGreedy'>) {
  /** Sessions that were ended and that the last check still found. */
  let leaving = new Set<number>();
  let alertUntil = 0;
  return {
    stillThere(found: ReadonlySet<number>): void {
      leaving = new Set([...leaving].filter((pid) => found.has(pid)));
    },
    tell({ pid, role, locks, reason, transactionSeconds }: Ended): void {
      if (leaving.has(pid)) return;
      leaving.add(pid);
      if (reason === 'locks' || reason === 'catalogue_locks') alertUntil = performance.now() + ALERT_MS;
      if (reason === 'locks') onGreedy(pid);
      tellEnded(role, reason, { locks, transaction_seconds: Math.round(transactionSeconds) });
    },
    glanceMs: () => (performance.now() < alertUntil ? ALERT_GLANCE_MS : GLANCE_MS),
  };
}

/** Resolves after the time, or when the watch stops. */
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
