import { createHash } from 'node:crypto';
import pg from 'pg';
import type { Logger } from '../log.ts';
import type { Secret } from '../secret.ts';
import type { Watched } from '../watched.ts';
import { isRace, StepError } from './errors.ts';

/**
 * Runs statements; every one is a named step, so that a failure says where and never what. They are sent as they are
 * called, in that order, without waiting for the one before: what does not need its answer goes out beside it, in one
 * `Promise.all`, and costs one round trip.
 */
export interface Session {
  run<Row extends pg.QueryResultRow>(step: string, text: string, values?: readonly unknown[]): Promise<Row[]>;
}

/** A service's few connections, all to its own registry database. */
export interface Connections {
  /** For the look-up of a principal; apart from the rest, so that refusals never wait for DDL. */
  readonly lookup: Session;
  /** One transaction, begun anew when it loses a race. */
  transaction<T>(work: (session: Session) => Promise<T>, behind?: Behind<T>): Promise<T>;
  /** One connection outside a transaction, for what cannot run in one. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** The same for physical drops, which wait for checkpoints: nothing quick waits behind them. */
  dropping<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Connections now open to the server. */
  count(): number;
  close(): Promise<void>;
}

/**
 * Sent right behind COMMIT, on the same connection, before anybody else can have it; must not throw. It runs as soon as
 * everybody sees the transaction, while the disk still writes it; the transaction ends when it is on the disk.
 */
type Behind<T> = (session: Session, value: T) => Promise<void>;

const BEGIN_UNWAITED = 'BEGIN; SET LOCAL synchronous_commit = off';
/** A commit of its own that is waited for, and with it all of the log before it. It writes nothing but the log. */
const MAKE_DURABLE = "SELECT pg_logical_emit_message(true, 'space', '')";

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
const LOOKUP_SETTINGS =
  ' -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off';

const MAX_ATTEMPTS = 5;
/** One that a peer has stopped answering must not hold a request for ever. */
const CLIENT_TIMEOUT_MS = 90_000;

export function openConnections(
  address: Watched<ServerAddress>,
  log: Logger,
  limits: { application: string; work: number; lookup: number; drop?: number },
): Connections {
  const open = (max: number, more?: { readonly waitMs?: number; readonly settings?: string }) =>
    createPool(address, log, { application: limits.application, max, ...more });
  const work = open(limits.work);
  const lookups = open(limits.lookup, { settings: LOOKUP_SETTINGS });
  const drops = open(limits.drop ?? 1, { waitMs: CLIENT_TIMEOUT_MS });
  const pools = [work, lookups, drops];

  async function sessionOn<T>(pool: pg.Pool, act: (session: Session) => Promise<T>): Promise<T> {
    const client = await connect(pool);
    let lost: boolean | undefined;
    try {
      return await act(sessionOf(client));
    } catch (error) {
      // No answer: nobody knows what the connection is in the middle of.
      lost = error instanceof StepError && !error.answered;
      throw error;
    } finally {
      client.release(lost);
    }
  }

  async function transaction<T>(act: (session: Session) => Promise<T>, behind?: Behind<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await sessionOn(work, (one) => transact(one, act, behind));
      } catch (error) {
        if (attempt >= MAX_ATTEMPTS || !isRace(error)) throw error;
      }
    }
  }

  return {
    lookup: { run: (step, text, values) => run(lookups, step, text, values) },
    transaction,
    session: (act) => sessionOn(work, act),
    dropping: (act) => sessionOn(drops, act),
    count: () => pools.reduce((sum, pool) => sum + pool.totalCount, 0),
    close: async () => {
      await Promise.all(pools.map((pool) => pool.end()));
    },
  };
}

/** BEGIN, the work, COMMIT, on a session that the caller holds. */
export async function inTransaction<T>(session: Session, act: (session: Session) => Promise<T>): Promise<T> {
  await session.run('begin', 'BEGIN');
  return untilCommitted(session, () => act(session));
}

/** The same without waiting for BEGIN, for work that uses no other session than the one that it is given. */
function transact<T>(
  session: Session,
  act: (session: Session) => Promise<T>,
  behind?: Behind<T>,
): Promise<T> {
  const begun = session.run('begin', behind === undefined ? 'BEGIN' : BEGIN_UNWAITED);
  // Whoever waits for it hears of its failure.
  begun.catch(() => undefined);
  return untilCommitted(session, () => act(insideOf(session, begun)), behind);
}

async function untilCommitted<T>(session: Session, act: () => Promise<T>, behind?: Behind<T>): Promise<T> {
  try {
    const value = await act();
    await Promise.all([
      session.run('commit', 'COMMIT'),
      ...(behind === undefined ? [] : [behind(session, value), session.run('make durable', MAKE_DURABLE)]),
    ]);
    return value;
  } catch (error) {
    // A lost connection rolls back by itself; the first error is the one to tell.
    await session.run('rollback', 'ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/**
 * Only what reads goes out before BEGIN was answered: had that failed on a living connection, a change would have been
 * made outside of any transaction.
 */
function insideOf(session: Session, begun: Promise<unknown>): Session {
  return {
    run: async (step, text, values) => {
      if (!text.startsWith('SELECT ')) await begun;
      const [, rows] = await Promise.all([begun, session.run<never>(step, text, values)]);
      return rows;
    },
  };
}

function createPool(
  address: Watched<ServerAddress>,
  log: Logger,
  {
    application,
    max,
    waitMs = 10_000,
    settings = '',
  }: {
    readonly application: string;
    readonly max: number;
    readonly waitMs?: number;
    readonly settings?: string;
  },
): pg.Pool {
  const { host, port, database, user, ssl } = address.current();
  const pool = new pg.Pool({
    host,
    port,
    database,
    user,
    ssl,
    // Asked for at every new connection: the file may have been replaced since.
    password: async () => {
      await address.refresh();
      return address.current().password.reveal();
    },
    max,
    idleTimeoutMillis: 60_000,
    // Also the longest that anybody waits for one of the pool's connections.
    connectionTimeoutMillis: waitMs,
    query_timeout: CLIENT_TIMEOUT_MS,
    pipeline: true,
    application_name: application,
    keepAlive: true,
    options: `-c search_path=pg_catalog -c lock_timeout=20s -c statement_timeout=75s -c idle_in_transaction_session_timeout=30s${settings}`,
  });
  // Without a listener, a server restart that ends an idle connection would end this process.
  pool.on('error', (error) => log.warn({ err: error }, 'idle server connection lost'));
  // The same for an error between two statements of a connection that is checked out.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

async function connect(pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw new StepError('connect', error);
  }
}

function sessionOf(client: pg.PoolClient): Session {
  return { run: (step, text, values) => run(client, step, text, values) };
}

async function run<Row extends pg.QueryResultRow>(
  target: pg.Pool | pg.PoolClient,
  step: string,
  text: string,
  values?: readonly unknown[],
): Promise<Row[]> {
  try {
    const result = await (values === undefined
      ? target.query<Row>(text)
      : target.query<Row>({ name: statementName(step, text), text, values: [...values] }));
    return result.rows;
  } catch (error) {
    throw new StepError(step, error);
  }
}

const statementNames = new Map<string, string>();

/**
 * Statements with values are constants of ours: each connection parses one once, under the name of its step, which is
 * short enough not to be cut by the server.
 */
function statementName(step: string, text: string): string {
  const known = statementNames.get(text);
  if (known !== undefined) return known;
  const name = `${step} ${createHash('sha256').update(text).digest('hex').slice(0, 8)}`;
  statementNames.set(text, name);
  return name;
}
