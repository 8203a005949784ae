import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { query } from '../../../brokers/db/testing/postgres.ts';
import { ensureBuilt } from '../../../e2e/cluster/builds/go.ts';
import { SEAWEEDFS_BUILD } from '../../../e2e/cluster/builds/pins.ts';
import { freePort } from '../../ports.ts';
import { startEmbeddedServer } from '../../postgres/server.ts';
import type { Product } from './node.ts';
import { type Node, type NodeSettings, nodeOf } from './node.ts';

/**
 * Each node has a master (two are a majority), a volume server, a filer and an S3 gateway. Every object is on two nodes; its metadata
 * is in a PostgreSQL that all filers share and that is not killed.
 */
export const SEAWEEDFS: Product = {
  title: 'SeaweedFS of 2026-11-09, three nodes, objects on two',
  count: 3,
  health: '/healthz',
  prepare: async (settings) => {
    const { directory, count } = settings;
    const program = join(await ensureBuilt(SEAWEEDFS_BUILD, { log: join(directory, 'build.log') }), 'weed');
    const store = await startEmbeddedServer({ durable: false, settings: { synchronous_commit: 'on' } });
    try {
      // Filers that start together would each create the missing table, and all but one of them would fail.
      await query(store.superuserUrl, tableOf('filemeta'));
      const ports: Ports[] = [];
      while (ports.length < count) ports.push(await newPorts());
      const masters = ports.map(({ master, masterGrpc }) => `127.0.0.1:${master}.${masterGrpc}`).join(',');
      const nodes = ports.map((own, i): Node => {
        const cwd = join(directory, `node-${i + 1}`);
        mkdirSync(join(cwd, 'data'), { recursive: true });
        writeFileSync(join(cwd, 'filer.toml'), filerSettings(store.superuserUrl), { mode: 0o600 });
        writeFileSync(join(cwd, 's3.json'), identities(settings), { mode: 0o600 });
        const args = argumentsOf(own, masters, cwd);
        const log = join(directory, `node-${i + 1}.log`);
        return nodeOf({ name: `node ${i + 1}`, port: own.s3, program, args, env: {}, cwd, log });
      });
      return { nodes, close: () => store.remove() };
    } catch (error) {
      await store.remove();
      throw error;
    }
  },
};

const PORTS = ['master', 'masterGrpc', 'volume', 'volumeGrpc', 'filer', 'filerGrpc', 's3', 's3Grpc'] as const;
type Ports = Readonly<Record<(typeof PORTS)[number], number>>;

async function newPorts(): Promise<Ports> {
  const all: Partial<Record<(typeof PORTS)[number], number>> = {};
  for (const name of PORTS) all[name] = await freePort();
  return all as Ports;
}

function argumentsOf(ports: Ports, masters: string, cwd: string): readonly string[] {
  return [
    ...['-logtostderr=true', 'server', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', `-dir=${join(cwd, 'data')}`],
    ...['-volume.max=60', '-volume.preStopSeconds=1', `-master.port=${ports.master}`],
    ...[`-master.port.grpc=${ports.masterGrpc}`, `-master.peers=${masters}`],
    // Copies are on two different nodes of a rack.
    ...['-master.defaultReplication=001', '-master.volumeSizeLimitMB=64', '-master.electionTimeout=3s'],
    ...[`-volume.port=${ports.volume}`, `-volume.port.grpc=${ports.volumeGrpc}`],
    ...['-filer', `-filer.port=${ports.filer}`, `-filer.port.grpc=${ports.filerGrpc}`],
    ...['-s3', `-s3.port=${ports.s3}`, `-s3.port.grpc=${ports.s3Grpc}`, `-s3.config=${join(cwd, 's3.json')}`],
  ];
}

const tableOf = (name: string) => `CREATE TABLE IF NOT EXISTS "${name}" (
  dirhash bigint, name varchar(65535), directory varchar(65535), meta bytea, PRIMARY KEY (dirhash, name))`;

function filerSettings(url: string): string {
  const { hostname, port, username, password, pathname } = new URL(url);
  return `[postgres2]
enabled = true
createTable = """${tableOf('%s')}"""
hostname = "${hostname}"
port = ${port}
username = "${username}"
password = "${password}"
database = "${pathname.slice(1)}"
schema = ""
sslmode = "disable"
connection_max_idle = 10
connection_max_open = 40
connection_max_lifetime_seconds = 0
enableUpsert = true
upsertQuery = """INSERT INTO "%[1]s" (dirhash, name, directory, meta) VALUES ($1, $2, $3, $4)
  ON CONFLICT (dirhash, name) DO UPDATE SET directory = EXCLUDED.directory, meta = EXCLUDED.meta"""
`;
}

function identities({ key }: NodeSettings): string {
  const credentials = [{ accessKey: key.id, secretKey: key.secret }];
  return JSON.stringify({ identities: [{ name: 'owner', credentials, actions: ['Admin'] }] });
}
