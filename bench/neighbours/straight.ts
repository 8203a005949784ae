import { Secret } from '../../brokers/kit/index.ts';
import { BUCKET } from '../../brokers/objectstore/testing/broker.ts';
import { createS3Client } from '../../brokers/objectstore/upstream/client.ts';
import { createPool } from '../../brokers/objectstore/upstream/managed.ts';
import { createSigner, UNSIGNED_PAYLOAD } from '../../brokers/objectstore/upstream/sigv4.ts';
import type { S3Server } from '../../testing/s3.ts';
import { headOf } from './acts.ts';
import { HOSTILE, type Straight } from './service-under-test.ts';

const MIB = 2 ** 20;
const OBJECTS = 1_000;
const PLACE = 'straight';

/**
 * Sends the same load, and that of the same quiet tenant, to the S3 server directly, which shows the costs of the machine and of
 * that server without the broker. Acts that never reach the S3 server have no counterpart here.
 */
export async function openStraight(s3: S3Server): Promise<Straight> {
  const target = {
    origin: s3.endpoint,
    region: s3.region,
    bucket: BUCKET,
    addressing: 'path' as const,
    accessKeyId: new Secret(s3.accessKeyId),
    secretAccessKey: new Secret(s3.secretAccessKey),
  };
  const pool = createPool(target, { connections: 32 });
  const client = createS3Client(target, pool);
  const sign = createSigner(target);
  const { host, port } = new URL(s3.endpoint);
  const by = { port: Number(port), from: HOSTILE } as const;
  const head = (
    method: string,
    key: string,
    length: number,
    query: readonly (readonly [string, string])[] = [],
  ) => {
    const path = key === '' ? `/${BUCKET}` : `/${BUCKET}/${PLACE}/${key}`;
    const request = { method, path, query, headers: [['host', host]] as const, payload: UNSIGNED_PAYLOAD };
    const text = query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
    const headers = { ...sign(request, new Date()), 'content-length': length, connection: 'close' };
    return headOf(`${method} ${path}${text === '' ? '' : `?${text}`}`, headers);
  };

  await client.put(`${PLACE}/large`, Buffer.alloc(64 * MIB, 'x'));
  for (let i = 0; i < OBJECTS; i += 16)
    await Promise.all(
      Array.from({ length: 16 }, (_, j) => client.put(`${PLACE}/many/${i + j}`, Buffer.from('x'))),
    );
  const body = Buffer.alloc(1_024, 'x');
  let stored = 0;
  const page = [
    ['list-type', '2'],
    ['max-keys', '1000'],
    ['prefix', `${PLACE}/`],
  ] as const;
  return {
    habits: [
      {
        name: 'PUT and GET of 1 KiB',
        perSecond: 30,
        once: async () => {
          stored += 1;
          const key = `${PLACE}/quiet/small-${stored % 32}`;
          await client.put(key, body);
          await client.read(key, body.length);
        },
      },
    ],
    // A signature is valid for a quarter of an hour, so each is created when it is needed.
    hostile: {
      'slow readers': () => [{ ...by, kind: 'slow-reads', head: head('GET', 'large', 0), connections: 256 }],
      'downloads as fast as they come': () => [
        { ...by, kind: 'requests', head: head('GET', 'large', 0), perSecond: 5 },
      ],
      'slow writers': () => [
        { ...by, kind: 'slow-writes', head: head('PUT', 'slow', 8 * MIB), connections: 256 },
      ],
      'server-side copies': () => [{ ...by, kind: 'requests', head: copyHead(host, sign), perSecond: 5 }],
      lists: () => [{ ...by, kind: 'requests', head: head('GET', '', 0, page), perSecond: 20 }],
      'many small PUTs': () => [
        { ...by, kind: 'requests', head: head('PUT', 'again', 1_024), body: ['x', 1_024], perSecond: 200 },
      ],
    },
    close: () => pool.destroy(),
  };
}

function copyHead(host: string, sign: ReturnType<typeof createSigner>): string {
  const path = `/${BUCKET}/${PLACE}/copy`;
  const source = ['x-amz-copy-source', `/${BUCKET}/${PLACE}/large`] as const;
  const headers = [['host', host], source] as const;
  const signed = sign({ method: 'PUT', path, query: [], headers, payload: UNSIGNED_PAYLOAD }, new Date());
  return headOf(`PUT ${path}`, {
    ...signed,
    [source[0]]: source[1],
    'content-length': 0,
    connection: 'close',
  });
}
