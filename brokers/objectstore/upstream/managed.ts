import { readFile } from 'node:fs/promises';
import { Secret } from '@space/broker-kit';
import type { Config } from '../config.ts';
import { createS3Client, type S3Client } from './client.ts';
import { createPool } from './pool.ts';
import type { Target } from './target.ts';

/** The Space's own bucket, under the Space-managed credential. */
export interface ManagedStore {
  readonly s3: S3Client;
  close(): Promise<void>;
}

/** For the broker's own small objects a few connections do; tenants' bodies have a pool of their own. */
export async function openManagedStore(config: Config, connections = 8): Promise<ManagedStore> {
  const read = async (path: string) => new Secret((await readFile(path, 'utf8')).trim());
  const target: Target = {
    origin: config.S3_ENDPOINT.replace(/\/$/, ''),
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    addressing: config.S3_ADDRESSING,
    accessKeyId: await read(config.S3_ACCESS_KEY_FILE),
    secretAccessKey: await read(config.S3_SECRET_KEY_FILE),
  };
  const ca = config.S3_CA_FILE === undefined ? undefined : await readFile(config.S3_CA_FILE, 'utf8');
  const pool = createPool(target, { connections, ca });
  return { s3: createS3Client(target, pool), close: () => pool.destroy() };
}
