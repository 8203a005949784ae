import type pg from 'pg';
import type { Logger } from '../log.ts';
import type { Secret } from '../secret.ts';
import type { Watched } from '../watched.ts';
import { isDuplicate, isRace, SQLSTATE, StepError } from './errors.ts';
import { CLIENT_TIMEOUT_MS, connect, createPool, type Notice, run } from './pool.ts';
import { type Behind, lent, transact } from './transaction.ts';

/**
 * Runs statements; every one is a named step, so that a failure says where and never what. They are sent as they are
 * called, in that order, without waiting for the one before: what does not need its answer goes out beside it, in one
 * `Promise.all`, and costs one round trip.
 */
export interface Session {
  run<Row extends pg.QueryResultRow>(
    step: string,
    text: string,
    values?: readonly unknown[],
    /** `none` where the statement changes nothing: in a transaction it need not wait for the answer to BEGIN. */
    effect?: 'none',
  ): Promise<Row[]>;
}

/** A service's few connections, all to its own registry database. */
export interface Connections {
  /** For the look-up of a principal; apart from the rest, so that refusals never wait for DDL. */
  readonly lookup: Session;
  /** One connection that stays, for whoever looks at what the others wait for. */
  readonly watch: Session;
  /** One transaction, begun anew when it loses a race; it is told how often it was. */
  transaction<T>(work: (session: Session, attempt: number) => Promise<T>, behind?: Behind<T>): Promise<T>;
  /** One connection outside a transaction, for what cannot run in one. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** The same for physical drops, which wait for checkpoints: nothing quick waits behind them. */
  dropping<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Connections now open to the server. */
  count(): number;
  close(): Promise<void>;
}

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: Secret<string>;
  /** No TLS, or the server is verified, by the system's authorities unless others are named. */
  readonly ssl: false | { readonly rejectUnauthorized: true; readonly ca?: string };
}

/**
 * Whoever is looked up is found by an index and by one plan, however many there are and whatever the statistics say:
 * tables that grow after a plan was made, or are never analysed, do not slow every request.
 */
const LOOKUP_SETTINGS = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
};
/**
 * A drop waits as long for the locks of its database as for all the rest. It hears of what the server writes into its
 * log, and so whom it waits for.
 */
const DROP_SETTINGS = { lock_timeout: '75s', client_min_messages: 'log' };
/** What watches must not wait itself. */
const WATCH_SETTINGS = { lock_timeout: '1s', statement_timeout: '5s' };

const MAX_ATTEMPTS = 5;

export function openConnections(
  address: Watched<ServerAddress>,
  log: Logger,
  limits: { application: string; work: number; lookup: number; drop?: number },
  /** A drop has waited for some seconds until this process of the server has heard of it; told again and again. */
  onDropWaits: (pid: number) => void = () => undefined,
): Connections {
  const { application } = limits;
  const open = (max: number, more?: Partial<Parameters<typeof createPool>[2]>) =>
    createPool(address, log, { application, max, ...more });
  const work = open(limits.work);
  const lookups = open(limits.lookup, { settings: LOOKUP_SETTINGS });
  const drops = open(limits.drop ?? 1, {
    waitMs: CLIENT_TIMEOUT_MS,
    settings: DROP_SETTINGS,
    onNotice: (notice) => {
      const pid = waitedFor(notice);
      if (pid !== undefined) onDropWaits(pid);
    },
  });
  const watch = open(1, { kept: true, settings: WATCH_SETTINGS });
  const pools = [work, lookups, drops, watch];

  async function sessionOn<T>(pool: pg.Pool, act: (session: Session) => Promise<T>): Promise<T> {
    const client = await connect(pool);
    const inside = lent(sessionOf(client));
    let lost: boolean | undefined;
    try {
      return await act(inside.session);
    } catch (error) {
      // No answer: nobody knows what the connection is in the middle of.
      lost = error instanceof StepError && !error.answered;
      throw error;
    } finally {
      inside.takeBack();
      client.release(lost);
    }
  }

  async function transaction<T>(
    act: (session: Session, attempt: number) => Promise<T>,
    behind?: Behind<T>,
  ): Promise<T> {
    let before: unknown;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await sessionOn(work, (one) => transact(one, (session) => act(session, attempt), behind));
      } catch (error) {
        if (attempt >= MAX_ATTEMPTS || !isRace(error) || isDuplicate(error, before)) throw error;
        before = error;
      }
    }
  }

  return {
    lookup: { run: (step, text, values) => run(lookups, step, text, values) },
    watch: { run: (step, text, values) => run(watch, step, text, values) },
    transaction,
    session: (act) => sessionOn(work, act),
    dropping: (act) => sessionOn(drops, act),
    count: () => pools.reduce((sum, pool) => sum + pool.totalCount, 0),
    close: async () => {
      await Promise.all(pools.map((pool) => pool.end()));
    },
  };
}

/** The message is in the language of the server, the name of the routine in none. */
function waitedFor({ routine, message = '' }: Notice): number | undefined {
  if (routine !== 'WaitForProcSignalBarrier') return undefined;
  const pid = /\d+/.exec(message)?.[0];
  return pid === undefined ? undefined : Number(pid);
}

/**
 * Of statements that were sent one behind the other, those after the one that failed all fail too, with a code that
 * says nothing else: whoever hears of one of them first is told what the first one failed of.
 */
function sessionOf(client: pg.PoolClient): Session {
  let first: StepError | undefined;
  return {
    run: async (step, text, values) => {
      try {
        return await run(client, step, text, values);
      } catch (error) {
        if (!(error instanceof StepError) || !error.answered) throw error;
        if (error.code !== SQLSTATE.inFailedTransaction) first = error;
        throw first ?? error;
      }
    },
  };
}
