import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../../brokers/kit/index.ts';
import type { S3Place } from '../../../brokers/objectstore/testing/broker.ts';
import { createS3Client } from '../../../brokers/objectstore/upstream/client.ts';
import { createPool } from '../../../brokers/objectstore/upstream/managed.ts';
import type { S3Client } from '../../../brokers/objectstore/upstream/types.ts';
import { eventually } from '../../eventually.ts';
import type { Server } from '../../installed/server.ts';
import { MINIO } from './minio.ts';
import type { Node, Product } from './node.ts';
import { startProxy } from './proxy.ts';
import { SEAWEEDFS } from './seaweedfs.ts';

/** Several nodes of one S3 server, and a HAProxy that forwards to those that run. */
export interface S3Cluster extends S3Place {
  /** `SeaweedFS of 2026-11-09, three nodes, objects on two`. */
  readonly title: string;
  readonly nodes: readonly Node[];
  /** Creates a bucket; returns a client for it, through the HAProxy as all others. */
  makeBucket(name: string): Promise<S3Client>;
  /** Resolves when every node serves. */
  whole(): Promise<void>;
  remove(): Promise<void>;
}

const PRODUCTS: Readonly<Record<string, Product>> = { minio: MINIO, seaweedfs: SEAWEEDFS };
export const DEFAULT_PRODUCT = 'seaweedfs';

export async function startS3Cluster(name: string): Promise<S3Cluster> {
  const product = Object.hasOwn(PRODUCTS, name) ? PRODUCTS[name] : undefined;
  if (product === undefined)
    throw new Error(`--server ${name}: use one of ${Object.keys(PRODUCTS).join(', ')}`);
  // Only processes are killed, so data is kept in memory: the nodes would otherwise share one disk.
  const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'space-s3-cluster-'));
  const key = {
    id: `TEST${randomBytes(8).toString('hex').toUpperCase()}`,
    secret: randomBytes(30).toString('base64url'),
  };
  let nodes: readonly Node[] = [];
  let proxy: Server | undefined;
  const closers: (() => Promise<void>)[] = [];
  const remove = async () => {
    await proxy?.stop();
    await Promise.all(nodes.map((node) => node.kill()));
    await Promise.all(closers.map((close) => close()));
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    const prepared = await product.prepare({ directory, count: product.count, key });
    ({ nodes } = prepared);
    closers.push(() => prepared.close());
    for (const node of nodes) node.start();
    const whole = () => untilWhole(product, nodes);
    await whole();
    proxy = await startProxy(directory, nodes, product.health);
    const endpoint = `http://127.0.0.1:${proxy.port}`;
    const region = 'us-east-1';
    const makeBucket = async (bucket: string) => {
      const target = {
        ...{ origin: endpoint, region, bucket, addressing: 'path' as const },
        accessKeyId: new Secret(key.id),
        secretAccessKey: new Secret(key.secret),
      };
      const pool = createPool(target, { connections: 4 });
      closers.push(() => pool.destroy());
      const s3 = createS3Client(target, pool);
      // The HAProxy may not have seen the nodes yet.
      await eventually(() => s3.createBucket().then(() => true), { what: `the bucket ${bucket} is created` });
      return s3;
    };
    const { title } = product;
    return {
      ...{ title, nodes, endpoint, region, makeBucket, whole, remove },
      ...{ accessKeyId: key.id, secretAccessKey: key.secret },
    };
  } catch (error) {
    const said = nodes.map((node) => `${node.name}: ${node.said()}`).join('\n');
    await remove();
    throw new Error(`the cluster did not come up: ${said}`, { cause: error });
  }
}

async function untilWhole({ health }: Product, nodes: readonly Node[]): Promise<void> {
  const serves = async ({ port }: Node) => {
    const signal = AbortSignal.timeout(2_000);
    const response = await fetch(`http://127.0.0.1:${port}${health}`, { signal });
    await response.arrayBuffer();
    return response.status === 200;
  };
  for (const node of nodes) await eventually(() => serves(node), { what: `${node.name} serves` });
}
