import { readFile } from 'node:fs/promises';
import { type Logger, Secret } from '@space/broker-kit';
import type { Config } from '../config.ts';
import { createS3Client, type S3Client } from './client.ts';
import { S3Error } from './errors.ts';
import { createPool } from './pool.ts';
import type { Target } from './target.ts';

/** The Space's own bucket, under the Space-managed credential. */
export interface ManagedStore {
  readonly s3: S3Client;
  close(): Promise<void>;
}

/** For the broker's own small objects a few connections do; tenants' bodies have a pool of their own. */
export async function openManagedStore(config: Config, log: Logger, connections = 8): Promise<ManagedStore> {
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
  const s3 = createS3Client(target, pool);
  try {
    if (config.S3_CREATE_BUCKET) await createBucket(s3, log);
    return { s3, close: () => pool.destroy() };
  } catch (error) {
    await pool.destroy();
    throw error;
  }
}

/** The embedded server may come up beside the broker. */
async function createBucket(s3: S3Client, log: Logger): Promise<void> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    try {
      await s3.createBucket({ signal: AbortSignal.timeout(10_000) });
      return;
    } catch (error) {
      if (!(error instanceof S3Error) || error.kind === 'answered' || Date.now() > deadline) throw error;
      log.warn({ err: error }, 'waiting for the S3 server');
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}
