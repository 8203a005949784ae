import { readFile } from 'node:fs/promises';
import type { Logger } from '@space/broker-kit';
import type { Config } from '../config.ts';
import { createS3Client, type S3Client } from './client.ts';
import { S3Error } from './errors.ts';
import { type AccessKey, type WatchedKey, watchKey } from './keys.ts';
import { createPool } from './pool.ts';

/** The Space's own bucket, under the Space-managed credential as its files have it now. */
export interface ManagedStore {
  readonly s3: S3Client;
  /** Looks at the credential's files now instead of in a moment. */
  refresh(): Promise<void>;
  close(): Promise<void>;
}

/** How long a changed key may take to prove itself. */
const TRY_OUT_MS = 10_000;

/** For the broker's own small objects a few connections do; tenants' bodies have a pool of their own. */
export async function openManagedStore(config: Config, log: Logger, connections = 8): Promise<ManagedStore> {
  const bucket = {
    origin: config.S3_ENDPOINT.replace(/\/$/, ''),
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    addressing: config.S3_ADDRESSING,
  };
  const ca = config.S3_CA_FILE === undefined ? undefined : await readFile(config.S3_CA_FILE, 'utf8');
  const pool = createPool(bucket, { connections, ca });
  const clientOf = (key: () => AccessKey) =>
    createS3Client(
      {
        ...bucket,
        get accessKeyId() {
          return key().id;
        },
        get secretAccessKey() {
          return key().secret;
        },
      },
      pool,
    );
  let key: WatchedKey | undefined;
  const close = async () => {
    key?.close();
    await pool.destroy();
  };
  try {
    const watched = await watchKey(
      { id: config.S3_ACCESS_KEY_FILE, secret: config.S3_SECRET_KEY_FILE },
      {
        log,
        tryOut: async (next) => {
          const signal = AbortSignal.timeout(TRY_OUT_MS);
          await clientOf(() => next).list({ prefix: 'space-key/', limit: 1 }, { signal });
        },
      },
    );
    key = watched;
    const s3 = clientOf(watched.current);
    if (config.S3_CREATE_BUCKET) await createBucket(s3, log);
    return { s3, refresh: watched.refresh, close };
  } catch (error) {
    await close();
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
