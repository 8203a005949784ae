import pg from 'pg';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { type Mounts, mountFiles, startTestBroker, type TestBroker } from './broker.ts';

/** Runs one statement, or several, in a session of its own. */
export async function query<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = await connect(url);
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

export async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 60_000 });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** The SQLSTATE with which connecting, or the statement, is refused; the error's message where it has none, and 'ok' without an error. */
export async function sqlstate(url: string, text = 'SELECT 1'): Promise<string> {
  try {
    await query(url, text);
    return 'ok';
  } catch (error) {
    if (!(error instanceof Error)) return String(error);
    return 'code' in error ? String(error.code) : error.message;
  }
}

/** A computation of minutes that the server looks at nothing in the middle of, and so hears nothing. */
export const UNINTERRUPTIBLE = `SELECT array_agg(i) <@ array_agg(400001 - i) FROM generate_series(1, 400000) i`;

/** The same URL, into another database. */
export function intoDatabase(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

export interface Fixture {
  readonly server: EmbeddedServer;
  readonly mounts: Mounts;
  readonly broker: TestBroker;
  /** Another broker on the same server and files. */
  replica(options?: Parameters<typeof startTestBroker>[1]): Promise<TestBroker>;
  /** Runs a statement as superuser in the `postgres` database. */
  sql<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  /** Runs a statement as superuser in the registry. */
  registry<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

/**
 * Settings of a server for whoever leaves many databases behind: a create is refused when the server has no connections
 * left to promise. The table of locks is as large as ever.
 */
export const MANY_DATABASES = { max_connections: '1500', max_locks_per_transaction: '70' } as const;

/** A server and a broker on it, for one test file. */
export async function openFixture(
  server: Parameters<typeof startEmbeddedServer>[0] = {},
  broker: Parameters<typeof startTestBroker>[1] = {},
): Promise<Fixture> {
  const running = await startEmbeddedServer({ durable: false, ...server });
  try {
    const mounts = mountFiles(running);
    const started = await startTestBroker(mounts, broker);
    return {
      server: running,
      mounts,
      broker: started,
      replica: (options) => startTestBroker(mounts, options),
      sql: (text, values) => query(running.superuserUrl, text, values),
      registry: (text, values) => query(intoDatabase(running.superuserUrl, 'space_registry'), text, values),
      close: async () => {
        await started.stop();
        await running.remove();
        mounts.remove();
      },
    };
  } catch (error) {
    await running.remove();
    throw error;
  }
}
