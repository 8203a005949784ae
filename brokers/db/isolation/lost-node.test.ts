import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Fixture, openFixture } from '../testing/postgres.ts';

/** A network for this test: a network namespace that represents a node, with a link of its own. */
const NODE = `space-node-${process.pid}`;
const [HERE, THERE] = ['sp-here', 'sp-there'].map((name) => `${name}${process.pid % 1_000}`);
const [SERVER, CLIENT] = ['198.51.100.1', '198.51.100.2'];
const ip = (...args: readonly string[]) => spawnSync('ip', args, { encoding: 'utf8' });
const within = (...command: readonly string[]) => ip('netns', 'exec', NODE, ...command);

/** Why it cannot be done on this machine; undefined where it can. */
function obstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root makes network namespaces';
  if (!existsSync('/usr/sbin/iptables')) return 'iptables is not installed here';
  const made = ip('netns', 'add', NODE);
  return made.status === 0 ? undefined : (made.stderr ?? 'ip is not installed here').trim();
}
const missing = obstacle();
if (missing !== undefined) console.warn(`skipped: ${missing}`);

let fixture: Fixture | undefined;
const clients: ChildProcess[] = [];
beforeAll(async () => {
  if (missing !== undefined) return;
  ip('link', 'add', HERE!, 'type', 'veth', 'peer', 'name', THERE!, 'netns', NODE);
  ip('addr', 'add', `${SERVER}/30`, 'dev', HERE!);
  ip('link', 'set', HERE!, 'up');
  within('ip', 'addr', 'add', `${CLIENT}/30`, 'dev', THERE!);
  within('ip', 'link', 'set', THERE!, 'up');
  fixture = await openFixture({ asInImage: true, settings: { listen_addresses: '*' } });
});
afterAll(async () => {
  for (const client of clients) client.kill('SIGKILL');
  await fixture?.close();
  ip('netns', 'delete', NODE);
  ip('link', 'delete', HERE!);
});

/** A session from that node, which does this. */
function session(url: string, statement: string): void {
  const script = `import pg from 'pg';
    const client = new pg.Client({ connectionString: process.argv[1] });
    client.on('error', () => undefined);
    await client.connect();
    await client.query(process.argv[2]);
    setInterval(() => undefined, 1_000);`;
  const node = [process.execPath, '--input-type=module', '-e', script, '--', url, statement];
  clients.push(
    spawn('ip', ['netns', 'exec', NODE, ...node], { cwd: join(import.meta.dirname, '..'), stdio: 'ignore' }),
  );
}

it.skipIf(missing !== undefined)(
  'sessions of a node that is lost end: one that is idle, one in a transaction, and one in the middle of an answer',
  async () => {
    const { broker, sql } = fixture!;
    const own = await broker.capsule('lost');
    const url = new URL((await own.create('lost', 'app')).json.database_url);
    const role = url.username;
    url.hostname = SERVER!;
    session(url.href, 'SELECT 1');
    session(url.href, 'BEGIN');
    session(url.href, "SELECT repeat('x', 100000) FROM generate_series(1, 1000000)");
    const states = async () => {
      const rows = await sql<{ state: string }>(
        'SELECT state FROM pg_stat_activity WHERE usename = $1 ORDER BY state',
        [role],
      );
      return rows.map(({ state }) => state);
    };
    await eventually(async () => (await states()).join() === 'active,idle,idle in transaction', {
      what: 'the sessions',
    });
    // Nothing arrives from there any more, not even a reset.
    expect(within('iptables', '-A', 'OUTPUT', '-j', 'DROP').status).toBe(0);
    expect(within('iptables', '-A', 'INPUT', '-j', 'DROP').status).toBe(0);
    await eventually(async () => (await states()).length === 0, { what: 'their end' });
  },
);
