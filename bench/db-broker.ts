import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { startEmbeddedServer } from '../brokers/db/embedded/server.ts';
import { mountFiles } from '../brokers/db/testing/broker.ts';
import { connect, intoDatabase, query, until } from '../brokers/db/testing/postgres.ts';
import { newToken } from '../brokers/kit/index.ts';
import { type BrokerProcess, brokerProgram } from './db/process.ts';
import { quantile, type Report, type Row } from './report.ts';
import { buildVault } from './vault.ts';

/**
 * The database broker over HTTP with everything on (authentication, registry, audit, log), beside the same made by
 * hand: CREATE ROLE, CREATE DATABASE and the closing statements on one open connection; and beside Vault's PostgreSQL
 * plugin, which makes roles and cannot make databases. One machine, durable server; the broker runs as in its pod.
 */

/** The size of the pool, and of the burst that empties it. */
const POOL = { quick: 24, whole: 64 };

interface Samples {
  readonly ms: number[];
  readonly seconds: number;
}

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const pool = quick ? POOL.quick : POOL.whole;
  const server = await startEmbeddedServer();
  const program = await brokerProgram();
  const vault = await buildVault();
  const mounts = mountFiles(server, 'bench');
  let broker: BrokerProcess | undefined;
  try {
    const environment = {
      ...mounts.environment,
      SPARE_DATABASES: String(pool),
      CAPSULE_REQUESTS_PER_SECOND: '1000000',
      CAPSULE_REQUESTS_BURST: '1000000',
      REFUSALS_PER_SECOND: '1000000',
      REFUSALS_BURST: '1000000',
    };
    // Once without counting, so that the template is there, as after any first start.
    await (await program.spawn(environment)).kill();
    const spawned = performance.now();
    broker = await program.spawn(environment);
    const readySeconds = (performance.now() - spawned) / 1000;
    const { url, pid } = broker;
    const registry = intoDatabase(server.superuserUrl, 'space_registry');
    const poolFull = () =>
      until(async () => {
        const [row] = await query<{ n: number }>(registry, 'SELECT count(*)::int AS n FROM broker.spare');
        return row?.n === pool;
      }, 'the pool to be full');

    const principal = newToken('dbp').reveal();
    const call = caller(url);
    await call(mounts.provisioner, '/v1/capsules/provision', {
      capsule_id: 'bench',
      principal_token: principal,
    });
    let made = 0;
    const create = () => {
      made += 1;
      return call(principal, '/v1/capsules/apps/create', { capsule_id: 'bench', app_id: `app${made}` });
    };
    const settle = async () => {
      await poolFull();
      await query(server.superuserUrl, 'CHECKPOINT');
    };

    await settle();
    await measure(5, 1, create);
    await settle();
    const warm = await measure(pool - 8, 1, create);
    const repeats = await measure(quick ? 100 : 500, 1, (i) =>
      call(principal, '/v1/capsules/apps/create', { capsule_id: 'bench', app_id: `app${(i % 10) + 1}` }),
    );
    await settle();
    // Before databases are made by hand: the server's vacuum visits each of them, ten a second.
    const refuse = () => call(newToken('dbp').reveal(), '/v1/capsules/apps/create', {}, 403);
    await measure(200, 4, refuse);
    const refused = await measure(quick ? 500 : 3_000, 1, refuse);
    const refusedTogether = await measure(quick ? 1_000 : 10_000, 16, refuse);
    await settle();
    const burst = await measure(pool, 8, create);
    const sustained = await measure(quick ? 40 : 300, 4, create);
    await settle();
    const raw = await byHand(server.superuserUrl, quick ? 20 : 100, 1);
    const rawTogether = await byHand(server.superuserUrl, quick ? 40 : 300, 4);
    const vaultAlone = await vault?.makeRoles(server.superuserUrl, quick ? 50 : 300, 1);
    const vaultTogether = await vault?.makeRoles(server.superuserUrl, quick ? 100 : 600, 8);
    // Access is cut when a tenant's open session has ended, since nobody can log in from before that on.
    const dropEach = async (apps: readonly string[], callers: number, between: () => Promise<void>) => {
      const tenants: Awaited<ReturnType<typeof tenantSession>>[] = [];
      for (const app_id of apps) {
        const body = { capsule_id: 'bench', app_id };
        const { database_url } = await call(principal, '/v1/capsules/apps/create', body);
        tenants.push(await tenantSession(database_url));
      }
      // The first drop after much writing pays for the checkpoint; that is measured by nobody here.
      await query(server.superuserUrl, 'CHECKPOINT');
      const cuts: number[] = [];
      const whole: number[] = [];
      const { seconds } = await measure(apps.length, callers, async (i) => {
        const begun = performance.now();
        await call(principal, '/v1/capsules/apps/drop', { capsule_id: 'bench', app_id: apps[i] });
        whole.push(performance.now() - begun);
        cuts.push(((await tenants[i]?.ended) ?? Number.NaN) - begun);
        await between();
      });
      return { whole: { ms: whole, seconds: callers > 1 ? seconds : Number.NaN }, cut: unpaced(cuts) };
    };
    const names = Array.from({ length: quick ? 36 : 220 }, (_, i) => `app${i + 1}`);
    const hand = await cutByHand(server.superuserUrl, 'hand1');
    const alone = await dropEach(names.slice(0, quick ? 12 : 100), 1, hand.cut);
    await hand.end();
    const together = await dropEach(names.slice(alone.whole.ms.length), 8, async () => undefined);
    const connections = await query<{ n: number }>(
      server.superuserUrl,
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'space_broker'",
    );
    const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

    const rows = [
      row('create, warm, 1 caller', warm),
      row('create again, 1 caller', repeats),
      row(`create, burst of ${pool}, 8 callers`, burst),
      row('create, sustained, 4 callers', sustained),
      row('by hand, 1 connection', raw),
      row('by hand, 4 connections', rawTogether),
      ...(vaultAlone ? [row('Vault plugin, role only, 1 caller', vaultAlone)] : []),
      ...(vaultTogether ? [row('Vault plugin, role only, 8 callers', vaultTogether)] : []),
      row('refusal, 1 caller', refused),
      row('refusal, 16 callers', refusedTogether),
      row('drop, 1 caller', alone.whole),
      row('drop, 8 callers', together.whole),
      row('access cut, 1 caller', alone.cut),
      row('access cut by hand, 1 connection', unpaced(hand.ms)),
      row('access cut, 8 callers', together.cut),
    ];
    const rawP50 = quantile(raw.ms, 0.5);
    return {
      title: 'Database broker over HTTP, PostgreSQL 18 on the same machine, durable',
      rows,
      figures: {
        warm_create_p50_ms: round(quantile(warm.ms, 0.5)),
        warm_create_p99_ms: round(quantile(warm.ms, 0.99)),
        by_hand_p50_ms: round(rawP50),
        by_hand_over_warm_ratio: round(rawP50 / quantile(warm.ms, 0.5)),
        burst_per_second: round(rate(burst)),
        ...(vaultAlone && vaultTogether
          ? {
              vault_role_p50_ms: round(quantile(vaultAlone.ms, 0.5)),
              vault_roles_per_second: round(rate(vaultTogether)),
              burst_over_vault_ratio: round(rate(burst) / rate(vaultTogether)),
            }
          : {}),
        sustained_per_second: round(rate(sustained)),
        sustained_p99_ms: round(quantile(sustained.ms, 0.99)),
        by_hand_per_second: round(rate(raw)),
        by_hand_4_per_second: round(rate(rawTogether)),
        by_hand_4_p99_ms: round(quantile(rawTogether.ms, 0.99)),
        sustained_over_by_hand_4_ratio: round(rate(sustained) / rate(rawTogether)),
        refusal_p99_ms: round(quantile(refused.ms, 0.99)),
        refusals_per_second: round(rate(refusedTogether)),
        cut_p50_ms: round(quantile(alone.cut.ms, 0.5)),
        cut_p99_ms: round(quantile(alone.cut.ms, 0.99)),
        cut_by_hand_p50_ms: round(quantile(hand.ms, 0.5)),
        cut_by_hand_p99_ms: round(quantile(hand.ms, 0.99)),
        cut_8_callers_p99_ms: round(quantile(together.cut.ms, 0.99)),
        drops_per_second: round(rate(together.whole)),
        server_connections: connections[0]?.n ?? 0,
        rss_mib: round(rss),
        ready_s: round(readySeconds),
      },
    };
  } finally {
    await broker?.kill();
    await vault?.remove();
    mounts.remove();
    await server.remove();
  }
}

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

async function measure(
  count: number,
  callers: number,
  act: (i: number) => Promise<unknown>,
): Promise<Samples> {
  const ms: number[] = [];
  let next = 0;
  const started = performance.now();
  const worker = async () => {
    while (next < count) {
      const i = next;
      next += 1;
      const begun = performance.now();
      await act(i);
      ms.push(performance.now() - begun);
    }
  };
  await Promise.all(Array.from({ length: callers }, worker));
  return { ms, seconds: (performance.now() - started) / 1000 };
}

/** Template0 for all, which nobody can sit in: side by side, clones of template1 wait for each other's sessions. */
async function byHand(superuserUrl: string, count: number, connections: number): Promise<Samples> {
  const clients = await Promise.all(Array.from({ length: connections }, () => connect(superuserUrl)));
  const idle = [...clients];
  try {
    return await measure(count, connections, async (i) => {
      const client = idle.pop();
      if (client === undefined) throw new Error('more callers than connections');
      const name = `hand${connections}_${i}`;
      await client.query(`CREATE ROLE ${name} LOGIN PASSWORD 'x'`);
      await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
      await client.query(
        `REVOKE ALL ON DATABASE ${name} FROM PUBLIC; GRANT CONNECT ON DATABASE ${name} TO ${name}`,
      );
      idle.push(client);
    });
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}

/**
 * The least that PostgreSQL needs for a cut, in two trips: nobody comes in any more, then who is inside is put out. Of
 * databases that were made by hand; each is dropped afterwards, as the broker's are, since that keeps the disk busy.
 */
async function cutByHand(superuserUrl: string, prefix: string) {
  const client = await connect(superuserUrl);
  const ms: number[] = [];
  return {
    ms,
    cut: async () => {
      const name = `${prefix}_${ms.length}`;
      const url = new URL(intoDatabase(superuserUrl, name));
      Object.assign(url, { username: name, password: 'x' });
      const tenant = await tenantSession(url.href);
      const begun = performance.now();
      await client.query(
        `BEGIN; ALTER ROLE ${name} NOLOGIN; ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false; COMMIT`,
      );
      await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]);
      ms.push((await tenant.ended) - begun);
      await client.query(`DROP DATABASE ${name} WITH (FORCE)`);
    },
    end: () => client.end(),
  };
}

/** A tenant that is inside its database: resolves to the moment at which the server put it out. */
async function tenantSession(url: string): Promise<{ readonly ended: Promise<number> }> {
  const client = await connect(url);
  const ended = new Promise<number>((resolve) => {
    for (const sign of ['error', 'end'] as const) client.once(sign, () => resolve(performance.now()));
  });
  return { ended };
}

function row(what: string, samples: Samples): Row {
  const { ms } = samples;
  const perSecond = Number.isNaN(samples.seconds) ? '' : round(rate(samples));
  return {
    what,
    n: ms.length,
    p50_ms: round(quantile(ms, 0.5)),
    p95_ms: round(quantile(ms, 0.95)),
    p99_ms: round(quantile(ms, 0.99)),
    'per second': String(perSecond),
  };
}

/** What was not made one after the other without a pause has no rate. */
const unpaced = (ms: number[]): Samples => ({ ms, seconds: Number.NaN });
const rate = ({ ms, seconds }: Samples) => ms.length / seconds;
const round = (value: number) => Math.round(value * 100) / 100;
