import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newToken, Secret } from '../../brokers/kit/index.ts';
import { BUCKET, client, mountFiles } from '../../brokers/objectstore/testing/broker.ts';
import { createSigner, EMPTY_SHA256, UNSIGNED_PAYLOAD } from '../../brokers/objectstore/upstream/sigv4.ts';
import { ensureBuilt } from '../../e2e/cluster/builds/go.ts';
import { built } from '../../e2e/cluster/tools.ts';
import { bundle } from '../../scripts/bundle.ts';
import { podCommand } from '../../testing/installed/image.ts';
import { freePort } from '../../testing/ports.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { startS3Server } from '../../testing/s3.ts';
import { BARE, startBare } from '../bare/start.ts';
import { type Program, startProgram, watchProcess } from './program.ts';

const run = promisify(execFile);

/** A way to the same S3 server. */
export interface Contestant {
  readonly name: string;
  readonly origin: string;
  path(key: string): string;
  headers(method: 'GET' | 'PUT', key: string): Record<string, string>;
  /** The process of the gateway, or the server itself. */
  readonly program: Pick<Program, 'cpuSeconds' | 'peakMib'>;
}

const KEYS = {
  accessKeyId: 'BENCHBENCHBENCHBENCH',
  secretAccessKey: 'benchbenchbenchbenchbenchbenchbenchbench',
};
/** rclone with only the parts that are needed here. */
export const RCLONE = { component: 'rclone', programs: { '.': 'rclone' } };

/** Names of the directories that the broker stores objects in, and of the objects of the others. */
const OBJECTS = /^(?:c|object-.*)$/;

/** The S3 server, and the gateways in front of it: ours, one that only passes requests on, versitygw's own and rclone's. */
export async function startContestants(): Promise<{
  readonly all: readonly Contestant[];
  /** The one of them that is ours. */
  readonly broker: Contestant;
  /** Deletes the objects from the disk directly. */
  clear(): void;
  /** Resolves when all objects are written to the disk, so that these writes do not disturb the next measurement. */
  settle(): Promise<void>;
  stop(): Promise<void>;
}> {
  const directory = mkdtempSync(join(tmpdir(), 'space-bench-'));
  const closers: Closers = [() => rmSync(directory, { recursive: true, force: true })];
  const stop = async () => {
    for (const close of closers.toReversed()) await close();
  };
  try {
    const versitygw = join(await built('versitygw', join(directory, 'build.log')), 'versitygw');
    const rclone = join(await ensureBuilt(RCLONE, { log: join(directory, 'build.log') }), 'rclone');
    const s3 = await startS3Server();
    closers.push(() => s3.remove());
    s3.makeBucket(BUCKET);
    s3.makeBucket('meta');
    const postgres = await startEmbeddedServer();
    closers.push(() => postgres.remove());

    const ours = await startBroker(closers, postgres.objectStoreUrl, s3);
    const bare = await startPassingOn(closers, s3);
    const gateway = await startGateway(closers, versitygw, (port) => versitygwArguments(port, s3));
    const served = await startGateway(closers, rclone, (port) => rcloneArguments(port, s3));
    return {
      all: [
        signing('direct', s3.endpoint, s3, watchProcess(s3.pid)),
        ours,
        bare,
        signing('versitygw s3', gateway.origin, KEYS, gateway.program),
        signing('rclone serve s3', served.origin, KEYS, served.program),
      ],
      broker: ours,
      clear: () => {
        const bucket = join(s3.directory, BUCKET);
        for (const name of readdirSync(bucket).filter((entry) => OBJECTS.test(entry)))
          rmSync(join(bucket, name), { recursive: true });
      },
      settle: async () => {
        await run('sync', ['--file-system', s3.directory]);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Closers = (() => unknown)[];
type S3Server = Awaited<ReturnType<typeof startS3Server>>;

/** Starts the broker as in its pod. */
async function startBroker(closers: Closers, registryUrl: string, s3: S3Server): Promise<Contestant> {
  const mounts = mountFiles(registryUrl, s3, 'bench');
  closers.push(() => mounts.remove());
  const [port, dataPort] = [await freePort(), await freePort()];
  const plenty = '1000000';
  const pod = await podCommand('brokers/objectstore/Dockerfile', 'objectStore');
  const env = {
    ...pod.environment,
    ...mounts.environment,
    LISTEN_PORT: String(port),
    DATA_PORT: String(dataPort),
    LOG_LEVEL: 'info',
    OBJECT_REQUESTS_PER_SECOND: plenty,
    OBJECT_REQUESTS_BURST: plenty,
    OBJECT_STREAMS: '1000',
  };
  // The program is bundled as in its pod: one file without types.
  await bundle('objectstore-broker');
  const main = join(import.meta.dirname, '../../dist/objectstore-broker/main.mjs');
  const url = `http://127.0.0.1:${port}`;
  const program = await startProgram([process.execPath, ...pod.flags, main], env, `${url}/healthz`);
  closers.push(() => program.stop());
  const principal = newToken('osp').reveal();
  const token = newToken('osw').reveal();
  const quota_bytes = 2 ** 45;
  await client(url, mounts.provisioner).provision('bench', principal, { quota_bytes });
  await client(url, principal).create('bench', 'bench', token);
  return {
    name: 'broker',
    origin: `http://127.0.0.1:${dataPort}`,
    path: (key) => `/v1/objects/data/${key}`,
    headers: () => ({ authorization: `Bearer ${token}` }),
    program,
  };
}

async function startPassingOn(closers: Closers, s3: S3Server): Promise<Contestant> {
  const { port, pid, stop } = await startBare('objects-process.ts', [s3.endpoint, BUCKET], {
    S3_ACCESS_KEY: s3.accessKeyId,
    S3_SECRET_KEY: s3.secretAccessKey,
  });
  closers.push(stop);
  return {
    name: BARE,
    origin: `http://127.0.0.1:${port}`,
    path: (key) => `/${BUCKET}/${key}`,
    headers: () => ({}),
    program: watchProcess(pid),
  };
}

async function startGateway(closers: Closers, program: string, args: (port: number) => readonly string[]) {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const running = await startProgram([program, ...args(port)], {}, origin);
  closers.push(() => running.stop());
  return { origin, program: running };
}

function versitygwArguments(port: number, s3: S3Server): readonly string[] {
  return [
    ...[
      '--access',
      KEYS.accessKeyId,
      '--secret',
      KEYS.secretAccessKey,
      '--port',
      `127.0.0.1:${port}`,
      '--keep-alive',
    ],
    ...['s3', '--access', s3.accessKeyId, '--secret', s3.secretAccessKey, '--endpoint', s3.endpoint],
    ...['--use-path-style', '--disable-checksum', '--disable-data-integrity-check', '--meta-bucket', 'meta'],
  ];
}

function rcloneArguments(port: number, s3: S3Server): readonly string[] {
  const remote = `:s3,provider=Other,endpoint="${s3.endpoint}",access_key_id=${s3.accessKeyId},secret_access_key=${s3.secretAccessKey}:`;
  return [
    ...[
      'serve',
      's3',
      '--addr',
      `127.0.0.1:${port}`,
      '--auth-key',
      `${KEYS.accessKeyId},${KEYS.secretAccessKey}`,
    ],
    ...['--config', '/dev/null', '--s3-no-check-bucket', remote],
  ];
}

/** Signs each request as S3 clients do, without hashing bodies. */
function signing(
  name: string,
  origin: string,
  { accessKeyId, secretAccessKey }: { readonly accessKeyId: string; readonly secretAccessKey: string },
  program: Contestant['program'],
): Contestant {
  const host = new URL(origin).host;
  const path = (key: string) => `/${BUCKET}/${key}`;
  const sign = createSigner({
    origin,
    region: 'us-east-1',
    bucket: BUCKET,
    addressing: 'path',
    accessKeyId: new Secret(accessKeyId),
    secretAccessKey: new Secret(secretAccessKey),
  });
  return {
    name,
    origin,
    path,
    headers: (method, key) =>
      sign(
        {
          method,
          path: path(key),
          query: [],
          headers: [['host', host]],
          payload: method === 'PUT' ? UNSIGNED_PAYLOAD : EMPTY_SHA256,
        },
        new Date(),
      ),
    program,
  };
}
