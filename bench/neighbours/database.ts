import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import pg from 'pg';
import { mountFiles } from '../../brokers/db/testing/broker.ts';
import { query } from '../../brokers/db/testing/postgres.ts';
import { newToken } from '../../brokers/kit/index.ts';
import { eventually } from '../../testing/eventually.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { brokerProgram } from '../db/process.ts';
import { headOf } from './acts.ts';
import { COMPUTE } from './elsewhere.ts';
import { ownGroup } from './group.ts';
import { HOSTILE, MANY, type ServiceUnderTest, STRANGER } from './service-under-test.ts';

/** A durable PostgreSQL, the broker beside it, and a database for each of two Capsules. */
async function openFixture() {
  const server = await startEmbeddedServer({ asInImage: true });
  const leaveGroup = await ownGroup(server.directory);
  const program = await brokerProgram();
  const mounts = mountFiles(server, 'bench');
  const broker = await program.spawn({ ...mounts.environment, SPARE_DATABASES: '8', LOG_LEVEL: 'info' });
  const agent = new Agent({ keepAlive: true });
  const call = caller(broker.url, agent);
  const capsule = async (id: string) => {
    const principal = newToken('dbp').reveal();
    await call(mounts.provisioner, '/v1/capsules/provision', { capsule_id: id, principal_token: principal });
    const ask = (operation: string, app: string) =>
      call(principal, `/v1/capsules/apps/${operation}`, { capsule_id: id, app_id: app });
    return { principal, ask, url: (await ask('create', 'app')).database_url };
  };
  const tenant = await capsule('hostile');
  return {
    server,
    port: Number(new URL(broker.url).port),
    quiet: await capsule('quiet'),
    hostile: tenant,
    /** A statement whose client is gone goes on until the server looks; it is not to be the next act's. */
    settle: async () => {
      const { username } = new URL(tenant.url);
      await eventually(
        async () => {
          const rows = await query(
            server.superuserUrl,
            'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1',
            [username],
          );
          return rows.length === 0;
        },
        { what: 'the hostile sessions to end' },
      );
    },
    close: async () => {
      agent.destroy();
      await broker.kill();
      mounts.remove();
      await server.remove();
      await leaveGroup();
    },
  };
}

/** A tenant's own role may say this of itself; unfinished, it stands in the way of who changes roles. */
const OWN_LOCK = [
  'SET idle_in_transaction_session_timeout = 0',
  'BEGIN',
  `ALTER ROLE CURRENT_USER PASSWORD '${randomBytes(12).toString('hex')}'`,
];
/** In the list of columns the series is not kept: as a table it would be a file of its session's first, and no lock for long. */
const ALL_LOCKS = [
  'SELECT count(pg_advisory_lock(i)) FROM (SELECT generate_series(1, 100000000) AS i) AS streamed',
];
const MUCH = "SELECT repeat('x', 1000) FROM generate_series(1, 10000000)";

/** What the operator asks of the broker for a quiet Capsule: an Assistant's database again, and another made and dropped. */
export async function openDbBroker(): Promise<ServiceUnderTest> {
  const { port, quiet, hostile, settle, close } = await openFixture();
  let made = 0;
  const unknown = headOf('POST /v1/capsules/apps/create', {
    host: 'db-broker',
    authorization: `Bearer ${newToken('dbp').reveal()}`,
    'content-type': 'application/json',
    'content-length': 2,
    connection: 'close',
  });
  const again = unknown.replace('connection: close', 'connection: keep-alive');
  const url = new URL(hostile.url);
  const database = url.pathname.slice(1);
  return {
    habits: [
      { name: 'ask again', perSecond: 20, once: () => quiet.ask('create', 'app') },
      {
        name: 'create and drop',
        perSecond: 2,
        once: async () => {
          made += 1;
          const app = `app-${made}`;
          await quiet.ask('create', app);
          await quiet.ask('drop', app);
        },
      },
    ],
    hostile: {
      'silent sockets': [{ kind: 'silent', port, from: MANY, each: 256 }],
      'flood of wrong principals': [
        { kind: 'requests', port, from: STRANGER, head: unknown, body: ['{}', 1], perSecond: 200 },
      ],
      pipelining: [
        {
          kind: 'pipelined',
          port,
          from: STRANGER,
          head: again,
          body: ['{}', 1],
          times: 1_000,
          perSecond: 20,
        },
      ],
      'locks on its own role': [
        { kind: 'sql', url: hostile.url, sessions: 2, statements: OWN_LOCK, once: true },
      ],
      'settings in a transaction': [
        {
          kind: 'sql',
          url: hostile.url,
          sessions: 2,
          statements: [
            'SET idle_in_transaction_session_timeout = 0',
            'BEGIN',
            `ALTER ROLE CURRENT_USER IN DATABASE "${database}" SET work_mem = '1MB'`,
          ],
          once: true,
        },
      ],
      'answers that are not read': [{ kind: 'unread', url: hostile.url, sessions: 3, statement: MUCH }],
      'all locks of the server': [
        { kind: 'sql', url: hostile.url, sessions: 2, statements: ALL_LOCKS, once: true },
      ],
    },
    settle,
    close,
  };
}

/** A quiet tenant's own statements and logins beside a hostile tenant's, both with the database that they were given. */
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
        // One after the other: its role has few connections, and none of them is to be refused for its own others.
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

/** With its own database, and with the server's port. */
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
    'answers that are not read': [{ kind: 'unread', url, sessions: 5, statement: MUCH }],
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

function caller(base: string, agent: Agent) {
  const { hostname, port } = new URL(base);
  return (token: string, path: string, body: object): Promise<{ database_url: string }> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      request({ hostname, port, path, agent, method: 'POST', headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => {
          if (response.statusCode === 200) resolve(JSON.parse(text));
          else reject(new Error(`${path}: ${response.statusCode} ${text}`));
        });
      })
        .on('error', reject)
        .end(JSON.stringify(body));
    });
}
