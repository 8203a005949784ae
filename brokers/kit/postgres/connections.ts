import type pg from 'pg';
import type { Logger } from '../log.ts';
import type { Watched } from '../watched.ts';
import type { ServerAddress } from './address.ts';
import { isDuplicate, isFull, isRace, SQLSTATE, StepError } from './errors.ts';
import { CLIENT_TIMEOUT_MS, connect, createPool, type Notice, run } from './pool.ts';
import { type Session, sessionOver } from './session.ts';
import { type AfterCommit, lend, transact } from './transaction.ts';

/** A service's connections, all to its own registry database. */
export interface Connections {
  /** Looks up principals on connections of their own, so that a refusal never waits for DDL. */
  readonly lookup: Session;
  /** A connection that stays open, to find out what the others wait for. */
  readonly watch: Session;
  /** Runs one transaction, and repeats it after a lost race; `work` gets the number of the attempt. */
  transaction<T>(
    work: (session: Session, attempt: number) => Promise<T>,
    afterCommit?: AfterCommit<T>,
  ): Promise<T>;
  /** Lends a connection outside a transaction, for statements that cannot run in one. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /**
   * Lends a connection for physical drops. They wait for checkpoints, and quick statements must not wait behind them.
   */
  dropping<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /**
   * Whether a connection pooler answers instead of the server: it names one of its own processes for the cancellation
   * of statements, whereas the server names the session's.
   */
  isPooled(): Promise<boolean>;
  /** The number of open connections to the server. */
  count(): number;
  close(): Promise<void>;
}

/**
 * Look-ups always use an index and one generic plan, whatever the statistics say, so that tables which grow after a
 * plan was made, or are never analysed, do not slow every request.
 */
const LOOKUP_SETTINGS = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  statement_timeout: '15s',
};
/** How long a server that may be lost is waited for, and a broker that may be stopped, in milliseconds. */
export const TIMES = {
  /**
   * A request waits for a look-up before all else, and those that are kept fall silent together when their node is
   * lost: the next one is tried soon.
   */
  lookup: 20_000,
  /** The connection that finds out what others wait for must not wait itself. */
  watch: 10_000,
  /**
   * Longer than a connection is kept idle here, and than anybody waits for something else with one in hand. The server ends one
   * that is idle for longer, with the locks that it holds: it is of a broker that was stopped, whose kernel goes on answering for it.
   */
  leftAlone: 100_000,
};
/**
 * A drop waits longer than others for locks, and its work has no end but its own: it is as long as what a tenant has left
 * to drop, and a drop that is stopped begins anew. The server sends it the lines of its log, of which one names the
 * process that the drop waits for.
 */
const DROP_SETTINGS = { lock_timeout: '75s', statement_timeout: '0', client_min_messages: 'log' };
/** Milliseconds for which a connection may be used by a drop; after that the server counts as not answering. */
const DROP_MS = 3_600_000;
const WATCH_SETTINGS = { lock_timeout: '1s', statement_timeout: '5s' };

const MAX_ATTEMPTS = 5;
/** Milliseconds to wait after the first attempt that finds the server full, and longer after each further one. */
const FULL_MS = 50;

interface ConnectionOptions {
  /** The name of the service, which the server shows for its sessions. */
  readonly application: string;
  /** The most connections for each purpose. */
  readonly work: number;
  readonly lookup: number;
  readonly drop?: number;
  /** Called repeatedly while a drop waits for this process of the server to acknowledge it. */
  readonly onDropWaits?: (pid: number) => void;
  /** A test sets shorter times. */
  readonly times?: typeof TIMES;
}

export function openConnections(
  address: Watched<ServerAddress>,
  log: Logger,
  options: ConnectionOptions,
): Connections {
  const { application, onDropWaits, times = TIMES } = options;
  const open = (max: number, more?: Partial<Parameters<typeof createPool>[2]>) =>
    createPool(address, log, { application, max, leftAloneMs: times.leftAlone, ...more });
  const work = open(options.work);
  const lookups = open(options.lookup, { kept: true, answerMs: times.lookup, settings: LOOKUP_SETTINGS });
  const drops = open(options.drop ?? 1, {
    waitMs: CLIENT_TIMEOUT_MS,
    answerMs: DROP_MS,
    settings: DROP_SETTINGS,
    onNotice: (notice) => {
      const pid = waitedFor(notice);
      if (pid !== undefined) onDropWaits?.(pid);
    },
  });
  const watch = open(1, { kept: true, answerMs: times.watch, settings: WATCH_SETTINGS });
  const pools = [work, lookups, drops, watch];

  return {
    lookup: sessionOver((step, text, values) => run(lookups, step, text, values)),
    watch: sessionOver((step, text, values) => run(watch, step, text, values)),
    transaction: (act, afterCommit) => transactionOn(work, act, afterCommit),
    session: (act) => sessionOn(work, act),
    dropping: (act) => sessionOn(drops, act),
    isPooled: () => isPooled(work),
    count: () => pools.reduce((sum, pool) => sum + pool.totalCount, 0),
    close: async () => {
      await Promise.all(pools.map((pool) => pool.end()));
    },
  };
}

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

async function transactionOn<T>(
  pool: pg.Pool,
  act: (session: Session, attempt: number) => Promise<T>,
  afterCommit?: AfterCommit<T>,
): Promise<T> {
  let before: unknown;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await sessionOn(pool, (one) => transact(one, (session) => act(session, attempt), afterCommit));
    } catch (error) {
      const full = isFull(error);
      if (attempt >= MAX_ATTEMPTS || !(full || isRace(error)) || isDuplicate(error, before)) throw error;
      if (full) await new Promise((resolve) => setTimeout(resolve, FULL_MS * attempt));
      before = error;
    }
  }
}

async function isPooled(pool: pg.Pool): Promise<boolean> {
  const client = await connect(pool);
  try {
    const [row] = await run<{ pid: number }>(client, 'ask process', 'SELECT pg_backend_pid() AS pid');
    // The driver's types lack this property.
    return row?.pid !== (client as { readonly processID?: number }).processID;
  } finally {
    client.release();
  }
}

/**
 * The process that a drop waits for. The message is in the server's language, but the routine's name is always the
 * same.
 */
function waitedFor({ routine, message = '' }: Notice): number | undefined {
  if (routine !== 'WaitForProcSignalBarrier') return undefined;
  const pid = /\d+/.exec(message)?.[0];
  return pid === undefined ? undefined : Number(pid);
}

/**
 * When a statement of a transaction fails, those that were sent after it fail with a code that says only that. Each of
 * them throws the error of the first one instead, so that every caller learns the reason.
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
