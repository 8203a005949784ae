import type pg from 'pg';
import type { Logger } from '../log.ts';
import type { Watched } from '../watched.ts';
import type { ServerAddress } from './address.ts';
import { isDuplicate, isFull, isRace, SQLSTATE, StepError } from './errors.ts';
import { CLIENT_TIMEOUT_MS, connect, createPool, type Notice, run } from './pool.ts';
import { type Session, sessionOver } from './session.ts';
import { type AfterCommit, lend, transact } from './transaction.ts';

/** A service's few connections, all to its own registry database. */
export interface Connections {
  /** Looks up principals, apart from the rest, so that refusals never wait for DDL. */
  readonly lookup: Session;
  /** One connection that stays open, to look at what the others wait for. */
  readonly watch: Session;
  /** Runs one transaction, again when it loses a race; `work` is told the number of the attempt. */
  transaction<T>(
    work: (session: Session, attempt: number) => Promise<T>,
    afterCommit?: AfterCommit<T>,
  ): Promise<T>;
  /** Lends one connection outside a transaction, for statements that cannot run in one. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Lends a connection for physical drops, which wait for checkpoints: no quick statement waits behind them. */
  dropping<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /**
   * Whether another program answers in the server's place, as a pool of connections does: it tells a process of its own as
   * the one to cancel statements at, where the server tells the session's.
   */
  isPooled(): Promise<boolean>;
  /** The number of connections that are open to the server now. */
  count(): number;
  close(): Promise<void>;
}

/**
 * A look-up always uses an index and one plan, whatever the statistics say: tables that grow after a plan was made, or
 * that are never analysed, do not slow every request.
 */
const LOOKUP_SETTINGS = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  statement_timeout: '15s',
};
/**
 * A request waits for a look-up before all else, and those that are kept fall silent together when their node is lost: the
 * next one is tried soon.
 */
const LOOKUP_MS = 20_000;
/**
 * A drop waits longer than others for locks, and its work has no end but its own: it is as long as what a tenant has left
 * to drop, and a drop that is stopped begins anew. The server sends it the lines of its log, of which one names the
 * process that the drop waits for.
 */
const DROP_SETTINGS = { lock_timeout: '75s', statement_timeout: '0', client_min_messages: 'log' };
/** A connection is held for a drop as long as this; then the server is taken for one that has stopped answering. */
const DROP_MS = 3_600_000;
/** The connection that looks at what others wait for must not wait itself. */
const WATCH_SETTINGS = { lock_timeout: '1s', statement_timeout: '5s' };
const WATCH_MS = 10_000;

const MAX_ATTEMPTS = 5;
/** After the first attempt that finds the server full; longer after each further one. */
const FULL_MS = 50;

export function openConnections(
  address: Watched<ServerAddress>,
  log: Logger,
  limits: { application: string; work: number; lookup: number; drop?: number },
  /** Called again and again while a drop waits for this process of the server to acknowledge it. */
  onDropWaits: (pid: number) => void = () => undefined,
): Connections {
  const { application } = limits;
  const open = (max: number, more?: Partial<Parameters<typeof createPool>[2]>) =>
    createPool(address, log, { application, max, ...more });
  const work = open(limits.work);
  const lookups = open(limits.lookup, { kept: true, answerMs: LOOKUP_MS, settings: LOOKUP_SETTINGS });
  const drops = open(limits.drop ?? 1, {
    waitMs: CLIENT_TIMEOUT_MS,
    answerMs: DROP_MS,
    settings: DROP_SETTINGS,
    onNotice: (notice) => {
      const pid = waitedFor(notice);
      if (pid !== undefined) onDropWaits(pid);
    },
  });
  const watch = open(1, { kept: true, answerMs: WATCH_MS, settings: WATCH_SETTINGS });
  const pools = [work, lookups, drops, watch];

  async function sessionOn<T>(pool: pg.Pool, act: (session: Session) => Promise<T>): Promise<T> {
    const client = await connect(pool);
    const inside = lend(sessionOf(client));
    let lost: boolean | undefined;
    try {
      return await act(inside.session);
    } catch (error) {
      // Without an answer, the state of the connection is unknown.
      lost = error instanceof StepError && !error.answered;
      throw error;
    } finally {
      inside.takeBack();
      client.release(lost);
    }
  }

  async function transaction<T>(
    act: (session: Session, attempt: number) => Promise<T>,
    afterCommit?: AfterCommit<T>,
  ): Promise<T> {
    let before: unknown;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await sessionOn(work, (one) => transact(one, (session) => act(session, attempt), afterCommit));
      } catch (error) {
        const full = isFull(error);
        if (attempt >= MAX_ATTEMPTS || !(full || isRace(error)) || isDuplicate(error, before)) throw error;
        if (full) await new Promise((resolve) => setTimeout(resolve, FULL_MS * attempt));
        before = error;
      }
    }
  }

  return {
    lookup: sessionOver((step, text, values) => run(lookups, step, text, values)),
    watch: sessionOver((step, text, values) => run(watch, step, text, values)),
    transaction,
    session: (act) => sessionOn(work, act),
    dropping: (act) => sessionOn(drops, act),
    isPooled: async () => {
      const client = await connect(work);
      try {
        const [row] = await run<{ pid: number }>(client, 'ask process', 'SELECT pg_backend_pid() AS pid');
        // The driver's types do not have it.
        return row?.pid !== (client as { readonly processID?: number }).processID;
      } finally {
        client.release();
      }
    },
    count: () => pools.reduce((sum, pool) => sum + pool.totalCount, 0),
    close: async () => {
      await Promise.all(pools.map((pool) => pool.end()));
    },
  };
}

/** The message is in the server's language; the name of the routine is the same in all. */
function waitedFor({ routine, message = '' }: Notice): number | undefined {
  if (routine !== 'WaitForProcSignalBarrier') return undefined;
  const pid = /\d+/.exec(message)?.[0];
  return pid === undefined ? undefined : Number(pid);
}

/**
 * When a statement of a transaction fails, those that were sent behind it fail too, with a code that says only that: each
 * of them throws the error of the first one instead, so that whoever sees one of them learns the reason.
 */
function sessionOf(client: pg.PoolClient): Session {
  let first: StepError | undefined;
  return sessionOver(async (step, text, values) => {
    try {
      return await run(client, step, text, values);
    } catch (error) {
      if (!(error instanceof StepError) || !error.answered) throw error;
      if (error.code !== SQLSTATE.inFailedTransaction) first = error;
      throw first ?? error;
    }
  });
}
