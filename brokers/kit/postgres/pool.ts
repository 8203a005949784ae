import { createHash } from 'node:crypto';
import pg from 'pg';
import type { Logger } from '../log.ts';
import type { Watched } from '../watched.ts';
import type { ServerAddress } from './address.ts';
import { StepError } from './errors.ts';

/** Milliseconds after which a request to a server that does not answer fails. */
export const CLIENT_TIMEOUT_MS = 90_000;

/**
 * How long a connection may be quiet before the kernel asks whether the other end is still there, ten times in ten
 * seconds: of a node that is lost nobody is told otherwise, and the system's own time for it is two hours.
 */
export const QUIET_MS = 10_000;

interface PoolOptions {
  readonly application: string;
  readonly max: number;
  /** The longest wait for one of the pool's connections, in milliseconds. */
  readonly waitMs?: number;
  /** The longest wait for an answer, in milliseconds; after that the connection is closed. */
  readonly answerMs?: number;
  /** Whether idle connections stay open, so that they are available when the server accepts no new ones. */
  readonly kept?: boolean;
  /** Milliseconds after which the server ends an idle session. Sessions of a pool that is kept have no such limit. */
  readonly leftAloneMs: number;
  /** Session settings in addition to the fixed ones. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly onNotice?: (notice: Notice) => void;
}

/** A message from the server outside the answers. */
export interface Notice {
  readonly routine?: string | undefined;
  readonly message?: string | undefined;
}

const SETTINGS = {
  search_path: 'pg_catalog',
  lock_timeout: '20s',
  statement_timeout: '75s',
  idle_in_transaction_session_timeout: '30s',
};

export function createPool(
  address: Watched<ServerAddress>,
  log: Logger,
  {
    application,
    max,
    waitMs = 10_000,
    answerMs = CLIENT_TIMEOUT_MS,
    kept = false,
    leftAloneMs,
    settings = {},
    onNotice,
  }: PoolOptions,
): pg.Pool {
  const { host, port, database, user, ssl } = address.current();
  const pool = new pg.Pool({
    host,
    port,
    database,
    user,
    ssl,
    // Read for every new connection, since the file may have been replaced.
    password: async () => {
      await address.refresh();
      return address.current().password.reveal();
    },
    max,
    idleTimeoutMillis: kept ? 0 : 60_000,
    connectionTimeoutMillis: waitMs,
    query_timeout: answerMs,
    pipeline: true,
    application_name: application,
    keepAlive: true,
    keepAliveInitialDelayMillis: QUIET_MS,
    options: Object.entries({
      ...SETTINGS,
      ...(kept ? {} : { idle_session_timeout: `${leftAloneMs}ms` }),
      ...settings,
    })
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
  });
  // Without a listener, a server restart that ends an idle connection would end this process.
  pool.on('error', (error) => log.warn({ err: error }, 'idle server connection lost'));
  // The same applies to an error between two statements on a connection in use.
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
    if (onNotice !== undefined) client.on('notice', onNotice);
  });
  return pool;
}

export async function connect(pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw new StepError('connect', error);
  }
}

export async function run<Row extends pg.QueryResultRow>(
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
 * Names a prepared statement after its step, so that each connection parses it once. Statements with parameters are
 * constants in this code, and the name is short enough that the server does not truncate it.
 */
function statementName(step: string, text: string): string {
  const known = statementNames.get(text);
  if (known !== undefined) return known;
  const name = `${step} ${createHash('sha256').update(text).digest('hex').slice(0, 8)}`;
  statementNames.set(text, name);
  return name;
}
