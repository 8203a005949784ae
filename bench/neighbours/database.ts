import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import { mountFiles } from '../../brokers/db/testing/broker.ts';
import { query } from '../../brokers/db/testing/postgres.ts';
import { newToken } from '../../brokers/kit/index.ts';
import { eventually } from '../../testing/eventually.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { brokerProgram } from '../db/process.ts';
import { type Act, headOf } from './acts.ts';
import { ownGroup } from './group.ts';
import { HOSTILE, MANY_ADDRESSES, type ServiceUnderTest, STRANGER } from './service-under-test.ts';

/** Starts a durable PostgreSQL and the broker, with a database for each of two Capsules. */
export async function openFixture() {
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
    /** A statement whose client is gone continues until the server notices; it must not disturb the next act. */
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

/** A tenant may change its own role in this way; while the transaction is open, it blocks others who change that role. */
const OWN_LOCK = [
  'SET idle_in_transaction_session_timeout = 0',
  'BEGIN',
  `ALTER ROLE CURRENT_USER PASSWORD '${randomBytes(12).toString('hex')}'`,
];
/** In the list of columns, the series is streamed. As a table it would first be written to a temporary file, and locks would come late. */
export const ALL_LOCKS = [
  'SELECT count(pg_advisory_lock(i)) FROM (SELECT generate_series(1, 100000000) AS i) AS streamed',
];
export const LARGE_ANSWER = "SELECT repeat('x', 1000) FROM generate_series(1, 10000000)";

/** The quiet Capsule requests an existing database again, and creates and drops another, as the operator does. */
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
      'silent sockets': [{ kind: 'silent', port, from: MANY_ADDRESSES, each: 256 }],
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
      'answers that are not read': [
        { kind: 'unread', url: hostile.url, sessions: 3, statement: LARGE_ANSWER },
      ],
      'databases made and dropped': ['create', 'drop'].map((operation) =>
        asked(port, operation, hostile.principal),
      ),
      'all locks of the server': [
        { kind: 'sql', url: hostile.url, sessions: 2, statements: ALL_LOCKS, once: true },
      ],
    },
    settle,
    close,
  };
}

/** What the operator asks for when somebody installs an Assistant and removes it again, all the time. */
function asked(port: number, operation: string, principal: string): Act {
  const body = JSON.stringify({ capsule_id: 'hostile', app_id: 'again' });
  const head = headOf(`POST /v1/capsules/apps/${operation}`, {
    host: 'db-broker',
    authorization: `Bearer ${principal}`,
    'content-type': 'application/json',
    'content-length': body.length,
    connection: 'close',
  });
  return { kind: 'requests', port, from: HOSTILE, head, body: [body, 1], perSecond: 10 };
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
