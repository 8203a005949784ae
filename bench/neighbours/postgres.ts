import pg from 'pg';
import { ALL_LOCKS, LARGE_ANSWER, openFixture } from './database.ts';
import { COMPUTE } from './elsewhere.ts';
import { HOSTILE, type ServiceUnderTest } from './service-under-test.ts';

/** The statements and logins of a quiet tenant beside those of a hostile one, each in its own database. */
export async function openPostgres(): Promise<ServiceUnderTest> {
  const { server, quiet, hostile, settle, close } = await openFixture();
  const session = new pg.Pool({
    connectionString: quiet.url,
    max: 2,
    min: 2,
    connectionTimeoutMillis: 30_000,
  });
  session.on('error', () => undefined);
  await session.query('CREATE TABLE posted (id serial PRIMARY KEY, amount int NOT NULL)');
  await session.query('INSERT INTO posted (amount) SELECT g FROM generate_series(1, 1000) AS g');
  let lastLogin: Promise<void> = Promise.resolve();
  return {
    habits: [
      {
        name: 'statements',
        perSecond: 30,
        once: async () => {
          await session.query('INSERT INTO posted (amount) VALUES ($1)', [1]);
          await session.query('SELECT amount FROM posted WHERE id = $1', [500]);
        },
      },
      {
        name: 'login',
        perSecond: 5,
        // Logins run one after another, since the role has few connections and its own must not cause a refusal.
        once: () => {
          const next = lastLogin.then(() => login(quiet.url));
          lastLogin = next.catch(() => undefined);
          return next;
        },
      },
    ],
    hostile: hostileActs(hostile.url, server.port),
    settle,
    close: async () => {
      await session.end();
      await close();
    },
  };
}

/** Acts with the tenant's own database, and with the server's port. */
function hostileActs(url: string, port: number): ServiceUnderTest['hostile'] {
  const sql = (sessions: number, ...statements: string[]) =>
    [{ kind: 'sql', url, sessions, statements }] as const;
  return {
    processor: sql(5, COMPUTE),
    'temporary files': sql(
      5,
      "SET work_mem = '64kB'",
      'SELECT count(*) FROM (SELECT md5(g::text) AS m FROM generate_series(1, 1000000) AS g ORDER BY m) AS s',
    ),
    'writes of the log': sql(
      5,
      'CREATE TABLE IF NOT EXISTS written (line text)',
      "INSERT INTO written SELECT repeat('x', 200) FROM generate_series(1, 20000)",
      'TRUNCATE written',
    ),
    'tables made and dropped': sql(
      5,
      'CREATE TEMP TABLE made (id serial PRIMARY KEY, line text UNIQUE)',
      'DROP TABLE made',
    ),
    'all locks of the server': [{ kind: 'sql', url, sessions: 2, statements: ALL_LOCKS, once: true }],
    'all its connections': [{ kind: 'logins', url, perSecond: 50 }],
    'silent sockets': [{ kind: 'silent', port, from: [HOSTILE], each: 400 }],
    notifications: [
      {
        kind: 'sql',
        url,
        sessions: 1,
        statements: ['LISTEN news', 'BEGIN', 'SELECT 1'],
        once: true,
      },
      ...sql(2, "SELECT pg_notify('news', repeat('x', 7000) || g) FROM generate_series(1, 1000) AS g"),
    ],
    'answers that are not read': [{ kind: 'unread', url, sessions: 5, statement: LARGE_ANSWER }],
    // The password stays the same, so that later acts can log in; the server computes its verifier each time.
    'its password set again and again': sql(
      5,
      `ALTER ROLE CURRENT_USER PASSWORD '${decodeURIComponent(new URL(url).password)}'`,
    ),
    'many empty tables': sql(
      5,
      'CREATE SCHEMA IF NOT EXISTS many',
      "DO $$ BEGIN FOR i IN 1..50 LOOP EXECUTE format('CREATE TABLE many.%I ()', gen_random_uuid()); END LOOP; END $$",
    ),
  };
}

async function login(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 30_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('SELECT 1');
  } finally {
    await client.end();
  }
}
