import { type Logger, RecentMap } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import type { TellEnded } from '../limits/endings.ts';

/** Milliseconds after which a statement counts as waiting for another session. */
const GRACE_MS = 50;
const NEXT_LOOK_MS = 50;

/** Selects sessions of roles that a broker created for a tenant; never a superuser's, another broker's or our own. */
const OF_A_TENANT = `EXISTS (SELECT FROM pg_roles r
  WHERE r.oid = a.usesysid AND r.rolname ~ '^spc_[0-9a-f]{40}$' AND NOT r.rolsuper)`;

/** The sessions that one of ours waits for: they hold the lock or are before ours in its queue. */
const END_HOLDERS = `SELECT a.usename AS tenant, pg_terminate_backend(a.pid) AS ended
  FROM (SELECT DISTINCT unnest(pg_blocking_pids(w.pid)) AS pid FROM pg_stat_activity w
        WHERE w.usename = current_user AND w.wait_event_type = 'Lock') holder
  JOIN pg_stat_activity a USING (pid) WHERE ${OF_A_TENANT}`;

/**
 * A drop waits until every session of the server has acknowledged it. A session that waits for its client in the middle
 * of a command does not acknowledge, and the server cannot tell which session that is.
 */
const FIND_STALLED = `SELECT a.pid, a.backend_start::text AS since,
    coalesce((SELECT d.capsule_id FROM broker.database d WHERE d.name = a.usename), a.usename) AS capsule
  FROM pg_stat_activity a
  WHERE (a.wait_event = 'ClientWrite' OR (a.wait_event = 'ClientRead' AND a.state = 'active')) AND ${OF_A_TENANT}
    AND EXISTS (SELECT FROM pg_stat_activity w
                WHERE w.usename = current_user AND w.wait_event = 'ProcSignalBarrier')`;
const END_STALLED = `SELECT a.usename AS tenant, pg_terminate_backend(a.pid) AS ended FROM pg_stat_activity a
  JOIN unnest($1::int[], $2::text[]) AS stalled (pid, since)
    ON stalled.pid = a.pid AND stalled.since = a.backend_start::text
  WHERE ${OF_A_TENANT}`;

const END_EXPELLED = `SELECT a.usename AS tenant, pg_terminate_backend(a.pid) AS ended FROM pg_stat_activity a
  WHERE a.datname = ANY ($1) AND ${OF_A_TENANT}`;

/** Ends a session that the server's log names as the one that a drop waits for, or that the watch has named. */
const END_UNHEEDING = `SELECT a.backend_start::text AS since, a.usename::text AS tenant, pg_terminate_backend(a.pid) AS ended
  FROM pg_stat_activity a WHERE a.pid = $1 AND ${OF_A_TENANT}`;
const FIND_STUCK = `SELECT a.pid, a.backend_start::text AS since, a.usename::text AS tenant FROM pg_stat_activity a
  JOIN unnest($1::int[], $2::text[]) AS told (pid, since) ON told.pid = a.pid AND told.since = a.backend_start::text`;
/** The shorter patience, in milliseconds, with a Capsule of which a client has recently stood still while a drop waited. */
const AGAIN_MS = 200;
const NOT_LONG_AGO_MS = 600_000;
const MOST_STALLED = 10_000;
/** A session that can react to its end has ended after this many milliseconds. */
const STUCK_MS = 10_000;

type EndedFor = 'lock' | 'stall' | 'seizure' | 'unheeding';

interface BlockersOptions {
  /** Milliseconds for which a client may stand still in the middle of a command while a drop waits. */
  readonly stalledMs: number;
  readonly log: Logger;
  readonly tellEnded: TellEnded;
}

/**
 * Prevents tenants from blocking the broker: while one of its statements waits, a separate connection repeatedly finds
 * the sessions that it waits for, and ends those of tenants.
 */
export class Blockers {
  readonly #watch: Session;
  readonly #options: BlockersOptions;
  readonly #expelled = new Map<string, number>();
  /** When each session was first seen to stall while a drop waited. */
  #stalled = new Map<string, number>();
  /** When a client of each Capsule was last disconnected for standing still. */
  readonly #stalledLast = new RecentMap<string, number>(MOST_STALLED);
  /** When the sessions that drops wait for were first told to end. */
  #told = new Map<string, { readonly pid: number; readonly since: string; readonly at: number }>();
  #waiting = 0;
  #looking = false;

  constructor(watch: Session, options: BlockersOptions) {
    this.#watch = watch;
    this.#options = options;
  }

  /** Wraps connections so that sessions which delay their statements are ended. */
  guard(connections: Connections): Connections {
    return {
      ...connections,
      transaction: (work, afterCommit) => this.#during(() => connections.transaction(work, afterCommit)),
      session: (work) => this.#during(() => connections.session(work)),
      dropping: (work) => this.#during(() => connections.dropping(work)),
    };
  }

  /** Ends all sessions in a database, including new ones, until the work has ended. */
  async expel<T>(database: string, work: () => Promise<T>): Promise<T> {
    const count = (by: number) => this.#expelled.set(database, (this.#expelled.get(database) ?? 0) + by);
    count(1);
    try {
      return await work();
    } finally {
      if (count(-1).get(database) === 0) this.#expelled.delete(database);
    }
  }

  /** Ends the session that a drop waits for, if it is a tenant's. */
  async dropWaitsFor(pid: number): Promise<void> {
    const tenant = await this.wasTold(pid);
    if (tenant !== undefined) this.#options.tellEnded(tenant, 'unheeding');
  }

  /**
   * Tells a tenant's session to end and stores that. Returns the tenant, or undefined if the session was told before.
   */
  async wasTold(pid: number): Promise<string | undefined> {
    const [row] = await this.#watch.run<{ since: string; tenant: string; ended: boolean }>(
      'end unheeding',
      END_UNHEEDING,
      [pid],
    );
    if (row === undefined) return undefined;
    const one = { pid, since: row.since, at: performance.now() };
    if (this.#told.has(keyOf(one))) return undefined;
    this.#told.set(keyOf(one), one);
    return row.tenant;
  }

  /**
   * The databases of sessions that were told to end and did not: they compute, and nothing available to a client ends
   * them.
   */
  async stuck(): Promise<string[]> {
    const told = [...this.#told.values()];
    if (told.length === 0) return [];
    const found = await this.#watch.run<{ pid: number; since: string; tenant: string }>(
      'find stuck',
      FIND_STUCK,
      [told.map(({ pid }) => pid), told.map(({ since }) => since)],
    );
    const there = new Set(found.map(keyOf));
    for (const one of told) if (!there.has(keyOf(one))) this.#told.delete(keyOf(one));
    const due = performance.now() - STUCK_MS;
    return found
      .filter((one) => (this.#told.get(keyOf(one))?.at ?? Number.POSITIVE_INFINITY) <= due)
      .map(({ tenant }) => tenant);
  }

  async #during<T>(work: () => Promise<T>): Promise<T> {
    let overdue = false;
    const timer = setTimeout(() => {
      overdue = true;
      this.#waiting += 1;
      if (!this.#looking) void this.#lookAround();
    }, GRACE_MS);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      if (overdue) this.#waiting -= 1;
    }
  }

  async #lookAround(): Promise<void> {
    this.#looking = true;
    while (this.#waiting > 0) {
      // If the server is gone for a moment, the statement that waits fails by itself.
      await this.#look().catch((error: unknown) =>
        this.#options.log.debug({ err: error }, 'the check for blocking sessions failed'),
      );
      await new Promise((resolve) => setTimeout(resolve, NEXT_LOOK_MS));
    }
    this.#looking = false;
    this.#stalled.clear();
  }

  async #look(): Promise<void> {
    await this.#end('lock', 'end holders', END_HOLDERS);
    if (this.#expelled.size > 0)
      await this.#end('seizure', 'end expelled', END_EXPELLED, [[...this.#expelled.keys()]]);
    const found = await this.#watch.run<Stalled>('find stalled', FIND_STALLED);
    const now = performance.now();
    const before = this.#stalled;
    this.#stalled = new Map(found.map((one) => [keyOf(one), before.get(keyOf(one)) ?? now]));
    const due = found.filter((one) => now - (before.get(keyOf(one)) ?? now) >= this.#patience(one, now));
    if (due.length === 0) return;
    await this.#end('stall', 'end stalled', END_STALLED, [
      due.map(({ pid }) => pid),
      due.map(({ since }) => since),
    ]);
    for (const { capsule } of due) this.#stalledLast.set(capsule, now);
  }

  #patience({ capsule }: Stalled, now: number): number {
    const last = this.#stalledLast.get(capsule);
    if (last === undefined) return this.#options.stalledMs;
    if (now - last <= NOT_LONG_AGO_MS) return Math.min(AGAIN_MS, this.#options.stalledMs);
    this.#stalledLast.delete(capsule);
    return this.#options.stalledMs;
  }

  async #end(reason: EndedFor, step: string, text: string, values?: readonly unknown[]): Promise<void> {
    const rows = await this.#watch.run<{ tenant: string; ended: boolean }>(step, text, values);
    for (const { tenant, ended } of rows) if (ended) this.#options.tellEnded(tenant, reason);
  }
}

interface Stalled {
  readonly pid: number;
  readonly since: string;
  /** The Capsule of its database, or the name of that if it is unknown. */
  readonly capsule: string;
}

const keyOf = ({ pid, since }: { readonly pid: number; readonly since: string }) => `${pid} ${since}`;
