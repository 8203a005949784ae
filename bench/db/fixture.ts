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

/** A durable server, the broker as in its pod, and one Capsule that sends the requests. */
export interface DatabaseFixture {
  readonly superuserUrl: string;
  readonly readySeconds: number;
  /** Requests a workload's database; returns its URL. */
  create(app: string): Promise<string>;
  /** Requests a database that does not exist yet. */
  createNext(): Promise<string>;
  drop(app: string): Promise<unknown>;
  /** Sends a request with a token that the broker does not know. */
  refuse(): Promise<unknown>;
  /** Waits until all spares exist and the server has finished a checkpoint. */
  settle(): Promise<void>;
  /** The number of connections that the broker has to the server. */
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
    // The first start is not measured, since it creates the template.
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
  // There are too many databases for the usual limit of connections.
  ROLE_CONNECTION_LIMIT: '1',
  // One Capsule has all of them.
  DEFAULT_QUOTA_BYTES: String(2 ** 40),
  CAPSULE_REQUESTS_PER_SECOND: UNLIMITED,
  CAPSULE_REQUESTS_BURST: UNLIMITED,
  REFUSALS_PER_SECOND: UNLIMITED,
  REFUSALS_BURST: UNLIMITED,
});

/** Names the databases in the order of their creation. */
export const appName = (number: number): string => `app${number}`;

/** Sends requests over connections that are kept open, as the operator does. */
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
