import { join } from 'node:path';
import { Pool } from 'undici';
import { newToken, Secret } from '../../brokers/kit/index.ts';
import { BUCKET, client, mountFiles } from '../../brokers/objectstore/testing/broker.ts';
import { createSigner, UNSIGNED_PAYLOAD } from '../../brokers/objectstore/upstream/sigv4.ts';
import { bundle } from '../../scripts/bundle.ts';
import { podCommand } from '../../testing/installed/image.ts';
import { freePort } from '../../testing/ports.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { startS3Server } from '../../testing/s3.ts';
import { startProgram } from '../objectstore/program.ts';
import { headOf } from './acts.ts';
import { expensiveActs } from './objectstore-work.ts';
import { HOSTILE, MANY_ADDRESSES, type ServiceUnderTest, STRANGER } from './service-under-test.ts';
import { openStraight } from './straight.ts';

const MIB = 2 ** 20;
const OBJECTS = 1_000;
/** The size of a document; the broker does not read larger ones. */
const DOCUMENT = MIB - 4_096;

/** Starts the broker as in its pod, in front of a real S3 server, with two Capsules. */
export async function openObjectStore(): Promise<ServiceUnderTest> {
  const closers: (() => unknown)[] = [];
  const close = async () => {
    for (const closer of closers.toReversed()) await closer();
  };
  try {
    const s3 = await startS3Server();
    closers.push(() => s3.remove());
    s3.makeBucket(BUCKET);
    const postgres = await startEmbeddedServer();
    closers.push(() => postgres.remove());
    const mounts = mountFiles(postgres.objectStoreUrl, s3, 'bench');
    closers.push(() => mounts.remove());
    const [control, port] = [await freePort(), await freePort()];
    const pod = await podCommand('brokers/objectstore/Dockerfile', 'objectStore');
    await bundle('objectstore-broker');
    const main = join(import.meta.dirname, '../../dist/objectstore-broker/main.mjs');
    const url = `http://127.0.0.1:${control}`;
    const environment = {
      ...pod.environment,
      ...mounts.environment,
      LISTEN_PORT: String(control),
      DATA_PORT: String(port),
      LOG_LEVEL: 'info',
    };
    const command = [process.execPath, ...pod.flags, main] as const;
    const program = await startProgram([command[0], ...command.slice(1)], environment, `${url}/healthz`);
    closers.push(() => program.stop());
    const tenant = async (id: string) => {
      const [principal, token] = [newToken('osp').reveal(), newToken('osw').reveal()];
      await client(url, mounts.provisioner).provision(id, principal, { quota_bytes: 4 * 2 ** 30 });
      await client(url, principal).create(id, 'app', token);
      return { ...tenantOf(`http://127.0.0.1:${port}`, token), capsule: id, principal, controlPort: control };
    };
    const [quiet, hostile] = [await tenant('quiet'), await tenant('hostile')];
    closers.push(() => Promise.all([quiet.close(), hostile.close()]));
    await hostile.put('large', Buffer.alloc(64 * MIB, 'x'));
    for (let i = 0; i < OBJECTS; i += 16)
      await Promise.all(Array.from({ length: 16 }, (_, j) => hostile.put(`many/${i + j}`, Buffer.from('x'))));
    const straight = await openStraight(s3);
    closers.push(() => straight.close());
    return { ...(await sceneOf(port, quiet, hostile)), straight, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function sceneOf(
  port: number,
  quiet: Tenant,
  hostile: Tenant & Pick<Parameters<typeof expensiveActs>[1], 'capsule' | 'principal' | 'controlPort'>,
): Promise<Omit<ServiceUnderTest, 'close' | 'straight'>> {
  const body = Buffer.alloc(1_024, 'x');
  let stored = 0;
  return {
    habits: [
      {
        name: 'PUT and GET of 1 KiB',
        perSecond: 30,
        once: async () => {
          stored += 1;
          const key = `small-${stored % 32}`;
          await quiet.put(key, body);
          await quiet.get(key);
        },
      },
    ],
    hostile: { ...(await hostileActs(port, hostile)), ...expensiveActs(port, hostile) },
    settle: () => new Promise((resolve) => setTimeout(resolve, 2_000)),
  };
}

async function hostileActs(port: number, hostile: Tenant): Promise<ServiceUnderTest['hostile']> {
  const headers = (length: number) => ({
    host: 'objects',
    authorization: `Bearer ${hostile.token}`,
    'content-length': length,
    connection: 'close',
  });
  const by = { port, from: HOSTILE } as const;
  const upload = await hostile.beginUpload('parts');
  const complete = headOf(`POST /v1/uploads/data/${upload}/complete`, {
    ...headers(DOCUMENT),
    'content-type': 'application/json',
  });
  const parts = `{"parts":[${'{},'.repeat((DOCUMENT - 14) / 3)}`;
  const wrong = headOf('GET /v1/objects/data/small', {
    host: 'objects',
    authorization: `Bearer ${newToken('osw').reveal()}`,
    connection: 'close',
  });
  const unsent = headOf('GET /healthz', { host: 'objects', 'content-length': 9 });
  return {
    'slow readers': [
      {
        ...by,
        kind: 'slow-reads',
        head: headOf('GET /v1/objects/data/large', headers(0)),
        connections: 256,
      },
    ],
    'downloads as fast as they come': [
      { ...by, kind: 'requests', head: headOf('GET /v1/objects/data/large', headers(0)), perSecond: 5 },
    ],
    'slow writers': [
      {
        ...by,
        kind: 'slow-writes',
        head: headOf('PUT /v1/objects/data/slow', headers(8 * MIB)),
        connections: 256,
      },
    ],
    'JSON documents': [
      { ...by, kind: 'requests', head: complete, body: [parts.padEnd(DOCUMENT, ' '), 1], perSecond: 20 },
    ],
    'XML documents': [
      {
        ...by,
        kind: 'requests',
        head: await hostile.signed('POST', '/data', 'delete', DOCUMENT),
        body: [`<Delete>${'<a>'.repeat((DOCUMENT - 8) / 3)}`.padEnd(DOCUMENT, ' '), 1],
        perSecond: 20,
      },
    ],
    lists: [
      {
        ...by,
        kind: 'requests',
        head: headOf('GET /v1/objects/data?limit=1000', headers(0)),
        perSecond: 20,
      },
    ],
    'many small PUTs': [
      {
        ...by,
        kind: 'requests',
        head: headOf('PUT /v1/objects/data/again', headers(1_024)),
        body: ['x', 1_024],
        perSecond: 200,
      },
    ],
    'silent sockets': [{ kind: 'silent', port, from: MANY_ADDRESSES, each: 256 }],
    'flood of wrong principals': [{ kind: 'requests', port, from: STRANGER, head: wrong, perSecond: 200 }],
    'health with a body that never comes': [
      { kind: 'pipelined', port, from: STRANGER, head: unsent, times: 1, perSecond: 200 },
    ],
  };
}

type Tenant = ReturnType<typeof tenantOf>;

function tenantOf(origin: string, token: string) {
  const pool = new Pool(origin, { connections: 32 });
  const authorization = `Bearer ${token}`;
  const ask = async (method: 'GET' | 'PUT' | 'POST', path: string, body?: Buffer | string) => {
    const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
    const answer = await pool.request({
      method,
      path,
      headers: { authorization, ...type },
      body: body ?? null,
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 200)
      throw new Error(`${method} was answered with status ${answer.statusCode}: ${text.slice(0, 100)}`);
    return text;
  };
  const keys = async () =>
    JSON.parse(await ask('GET', '/v1/s3/credentials')) as { AccessKeyId: string; SecretAccessKey: string };
  return {
    token,
    put: (key: string, body: Buffer) => ask('PUT', `/v1/objects/data/${key}`, body),
    get: (key: string) => ask('GET', `/v1/objects/data/${key}`),
    keys,
    beginUpload: async (key: string) => {
      const text = await ask('POST', '/v1/uploads/data', JSON.stringify({ key }));
      return (JSON.parse(text) as { upload_id: string }).upload_id;
    },
    /** The head of an S3 request, valid for a quarter of an hour. */
    signed: async (method: string, path: string, query: string, length: number) => {
      const { AccessKeyId, SecretAccessKey } = await keys();
      const sign = createSigner({
        origin,
        region: 'us-east-1',
        bucket: 'data',
        addressing: 'path',
        accessKeyId: new Secret(AccessKeyId),
        secretAccessKey: new Secret(SecretAccessKey),
      });
      const { host } = new URL(origin);
      const request = {
        method,
        path,
        query: [[query, '']] as const,
        headers: [['host', host]] as const,
        payload: UNSIGNED_PAYLOAD,
      };
      const headers = { host, ...sign(request, new Date()), 'content-length': length, connection: 'close' };
      return headOf(`${method} ${path}?${query}=`, headers);
    },
    close: () => pool.destroy(),
  };
}
