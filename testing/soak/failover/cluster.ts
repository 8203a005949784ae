import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../../e2e/cluster/run.ts';
import { eventually } from '../../eventually.ts';
import { type Server, startServer } from '../../installed/server.ts';
import { freePort } from '../../ports.ts';
import { type Node, prepareNode } from './node.ts';
import { findPrograms, type Programs } from './programs.ts';

/** Three PostgreSQL servers that Patroni manages with etcd, and a HAProxy that forwards to the primary. */
export interface Cluster {
  readonly versions: string;
  /** The port of the HAProxy. */
  readonly port: number;
  readonly brokerUrl: string;
  /** The superuser's URL through the HAProxy, as all others. */
  readonly superuserUrl: string;
  readonly nodes: readonly Node[];
  /** The only primary; undefined while there is none. */
  primary(): Promise<Node | undefined>;
  /** Resolves when there are a primary and two standbys, one of them synchronous. */
  whole(): Promise<void>;
  switchover(from: Node): Promise<void>;
  remove(): Promise<void>;
}

const NAMES = ['one', 'two', 'three'];
const SQL = new URL('../../../brokers/db/postgres/', import.meta.url).pathname;
const newPassword = () => randomBytes(24).toString('base64url');

export async function startCluster(): Promise<Cluster> {
  // Only processes are killed, so data is kept in memory: three servers would otherwise share one disk.
  const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'space-patroni-'));
  chmodSync(directory, 0o711);
  const servers: Server[] = [];
  const nodes: Node[] = [];
  const remove = async () => {
    await Promise.all(nodes.map((node) => node.lose()));
    await Promise.all(servers.map((server) => server.stop()));
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    const programs = await findPrograms(directory);
    const etcd = await startEtcd(programs, directory);
    servers.push(etcd);
    const passwords = { superuser: newPassword(), replication: newPassword(), broker: newPassword() };
    for (const name of NAMES)
      nodes.push(await prepareNode({ name, programs, directory, etcdPort: etcd.port, passwords }));
    for (const node of nodes) node.start();
    const proxy = await startProxy(programs, directory, nodes);
    servers.push(proxy);
    const primary = () => primaryOf(nodes);
    const whole = () => untilWhole(nodes);
    await whole();
    const superuserUrl = `postgresql://postgres:${passwords.superuser}@127.0.0.1:${proxy.port}/postgres`;
    await setUp(programs, superuserUrl, passwords.broker);
    return {
      versions: `PostgreSQL ${programs.major}, Patroni ${programs.patroni.version}`,
      port: proxy.port,
      brokerUrl: `postgresql://space_broker:${passwords.broker}@127.0.0.1:${proxy.port}/space_registry`,
      superuserUrl,
      nodes,
      primary,
      whole,
      switchover,
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function startEtcd({ etcd }: Programs, directory: string): Promise<Server> {
  const peer = `http://127.0.0.1:${await freePort()}`;
  return startServer('etcd', etcd, async (port) => {
    const client = `http://127.0.0.1:${port}`;
    return [
      `--data-dir=${join(directory, 'etcd')}`,
      '--log-level=error',
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
    ];
  });
}

/** Starts a HAProxy that asks each Patroni twice a second whether its server is primary, and forwards to that one. */
function startProxy({ haproxy }: Programs, directory: string, nodes: readonly Node[]): Promise<Server> {
  const file = join(directory, 'haproxy.cfg');
  return startServer('haproxy', haproxy, async (port) => {
    const lines = [
      'global',
      '  maxconn 1000',
      'defaults',
      '  mode tcp',
      '  timeout connect 2s',
      '  timeout client 1h',
      '  timeout server 1h',
      'listen postgres',
      `  bind 127.0.0.1:${port}`,
      '  option httpchk GET /primary',
      '  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions',
      ...nodes.map((node) => `  server ${node.name} 127.0.0.1:${node.port} check port ${node.restPort}`),
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    return ['-f', file, '-db'];
  });
}

async function statusOf(node: Node, path: string): Promise<number> {
  const asked = fetch(`http://127.0.0.1:${node.restPort}${path}`, { signal: AbortSignal.timeout(2_000) });
  return asked.then(
    async (response) => {
      await response.arrayBuffer();
      return response.status;
    },
    () => 0,
  );
}

async function primaryOf(nodes: readonly Node[]): Promise<Node | undefined> {
  const answers = await Promise.all(nodes.map((node) => statusOf(node, '/primary')));
  const primaries = nodes.filter((_, i) => answers[i] === 200);
  return primaries.length === 1 ? primaries[0] : undefined;
}

async function untilWhole(nodes: readonly Node[]): Promise<void> {
  const of = async (path: string) => {
    const answers = await Promise.all(nodes.map((node) => statusOf(node, path)));
    return answers.filter((status) => status === 200).length;
  };
  const isWhole = async () =>
    (await of('/primary')) === 1 && (await of('/replica')) === 2 && (await of('/sync')) === 1;
  const what = 'a primary and two standbys, one of them synchronous';
  await eventually(isWhole, { what }).catch(async (cause: unknown) => {
    const said = await Promise.all(nodes.map(({ restPort }) => asked(restPort, '/cluster')));
    throw new Error(`the cluster did not reach ${what}: ${said.find((text) => text !== undefined)}`, {
      cause,
    });
  });
}

const asked = (port: number, path: string): Promise<string | undefined> =>
  fetch(`http://127.0.0.1:${port}${path}`).then(
    (response) => response.text(),
    () => undefined,
  );

async function switchover(from: Node): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${from.restPort}/switchover`, {
    method: 'POST',
    body: JSON.stringify({ leader: from.name }),
  });
  const said = await response.text();
  // 503 means that the change is in progress and takes longer than Patroni waits.
  if (response.status !== 200 && response.status !== 503)
    throw new Error(`the switchover was refused: ${said}`);
}

/** Sets the server up as docs/postgres.md describes it for its owner. */
async function setUp({ bin, env }: Programs, url: string, password: string): Promise<void> {
  const files = ['bootstrap.sql', 'registry.sql'].flatMap((file) => ['-f', join(SQL, file)]);
  const set = `ALTER ROLE space_broker PASSWORD '${password}'`;
  await run([join(bin, 'psql'), '-Xq', '-v', 'ON_ERROR_STOP=1', ...files, '-c', set, url], {
    env: { ...process.env, ...env },
  });
}
