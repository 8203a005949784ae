import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { mountFiles } from '../../brokers/db/testing/broker.ts';
import { intoDatabase, MANY_DATABASES, query } from '../../brokers/db/testing/postgres.ts';
import { newToken } from '../../brokers/kit/index.ts';
import { eventually } from '../../testing/eventually.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { type BrokerProcess, brokerProgram } from './process.ts';

const CAPSULE = 'bench';
const UNLIMITED = '1000000';

/** A durable server, the broker as in its pod, and one Capsule that asks. */
export interface DatabaseFixture {
  readonly superuserUrl: string;
  readonly readySeconds: number;
  /** Asks for a workload's database; the URL is the answer. */
  create(app: string): Promise<string>;
  /** Asks for one that is not there yet. */
  createNext(): Promise<string>;
  drop(app: string): Promise<unknown>;
  /** Asks with a token that nobody has. */
  refuse(): Promise<unknown>;
  /** All spares are there and the server has written what it had to. */
  settle(): Promise<void>;
  /** The server's connections that are the broker's. */
  connections(): Promise<number>;
  rssMiB(): number;
  close(): Promise<void>;
}

export async function openDatabaseFixture(spares: number): Promise<DatabaseFixture> {
  const server = await startEmbeddedServer({ settings: MANY_DATABASES });
  const { superuserUrl } = server;
  const program = await brokerProgram();
  const mounts = mountFiles(server, CAPSULE);
  let broker: BrokerProcess | undefined;
  const close = async () => {
    await broker?.kill();
    mounts.remove();
    await server.remove();
  };
  try {
    const environment = { ...mounts.environment, ...unbounded(spares) };
    // Once without counting, so that the template is there, as after any first start.
    await (await program.spawn(environment)).kill();
    const spawned = performance.now();
    const { url, pid } = await program.spawn(environment).then((started) => {
      broker = started;
      return started;
    });
    const readySeconds = (performance.now() - spawned) / 1000;
    const call = caller(url);
    const principal = newToken('dbp').reveal();
    await call(mounts.provisioner, '/v1/capsules/provision', {
      capsule_id: CAPSULE,
      principal_token: principal,
    });
    const ofApp = (operation: string, app: string) =>
      call(principal, `/v1/capsules/apps/${operation}`, { capsule_id: CAPSULE, app_id: app });
    const create = async (app: string) => (await ofApp('create', app)).database_url;
    const registry = intoDatabase(superuserUrl, 'space_registry');
    let made = 0;
    return {
      superuserUrl,
      readySeconds,
      create,
      createNext() {
        made += 1;
        return create(appName(made));
      },
      drop: (app) => ofApp('drop', app),
      refuse: () => call(newToken('dbp').reveal(), '/v1/capsules/apps/create', {}, 403),
      async settle() {
        await eventually(
          async () => {
            const [row] = await query<{ n: number }>(registry, 'SELECT count(*)::int AS n FROM broker.spare');
            return row?.n === spares;
          },
          { what: 'the pool to be full' },
        );
        await query(superuserUrl, 'CHECKPOINT');
      },
      async connections() {
        const [row] = await query<{ n: number }>(
          superuserUrl,
          "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'space_broker'",
        );
        return row?.n ?? 0;
      },
      rssMiB: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const unbounded = (spares: number) => ({
  SPARE_DATABASES: String(spares),
  // There are too many databases for the usual limit.
  ROLE_CONNECTION_LIMIT: '1',
  // And one Capsule has them all.
  DEFAULT_QUOTA_BYTES: String(2 ** 40),
  CAPSULE_REQUESTS_PER_SECOND: UNLIMITED,
  CAPSULE_REQUESTS_BURST: UNLIMITED,
  REFUSALS_PER_SECOND: UNLIMITED,
  REFUSALS_BURST: UNLIMITED,
});

/** Names the databases in the order of their creation. */
export const appName = (number: number): string => `app${number}`;

/** Calls over kept connections, as the operator does. */
function caller(base: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const { hostname, port } = new URL(base);
  return (token: string, path: string, body: object, expected = 200): Promise<{ database_url: string }> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const outgoing = request({ hostname, port, path, agent, method: 'POST', headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => {
          if (response.statusCode === expected) resolve(JSON.parse(text));
          else reject(new Error(`${path}: ${response.statusCode} ${text}`));
        });
      });
      outgoing.on('error', reject);
      outgoing.end(JSON.stringify(body));
    });
}
