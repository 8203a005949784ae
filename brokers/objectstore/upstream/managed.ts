import { randomUUID } from 'node:crypto';
import type { Logger } from '@space/broker-kit';
import { Pool } from 'undici';
import { type AuthorityNow, verifyingConnector, watchAuthority } from './authority.ts';
import { createS3Client } from './client.ts';
import { type AccessKey, type WatchedKey, watchKey } from './credential-files.ts';
import { hearing } from './early-answers.ts';
import { S3Error } from './errors.ts';
import { listingFew } from './few-lists.ts';
import { requireFit } from './fit.ts';
import { clearingDirectories } from './folders.ts';
import { freeing } from './pieces.ts';
import { PATIENCE } from './relay.ts';
import { routeOf, type Target } from './target.ts';
import type { S3Client } from './types.ts';

/** The Space's own bucket, with the present Space-managed credential from its files. */
export interface ManagedStore {
  readonly s3: S3Client;
  /** The same bucket over separate connections, so that tenants' requests do not delay it. */
  readonly custody: S3Client;
  readonly upkeep: S3Client;
  /** Reads the files of credential and authority now. */
  refresh(): Promise<void>;
  close(): Promise<void>;
}

/** The settings, as in the environment. */
interface ManagedSettings {
  readonly S3_ENDPOINT: string;
  readonly S3_REGION: string;
  readonly S3_BUCKET: string;
  readonly S3_CREATE_BUCKET: boolean;
  readonly S3_ADDRESSING: Target['addressing'];
  readonly S3_ACCESS_KEY_FILE: string;
  readonly S3_SECRET_KEY_FILE: string;
  readonly S3_CA_FILE?: string | undefined;
  readonly S3_LONG_SECONDS: number;
}

/** Milliseconds in which a changed key must prove valid. */
const TRY_OUT_MS = 10_000;
/** How long a start waits for a server that does not answer; the chart's startup probe waits for longer. */
const COMES_UP_MS = 120_000;
/**
 * For one try at the start. Proving that a bucket is fit takes a dozen rounds of writes: a server that makes its first
 * volumes takes 11 s for the first of them, and one whose writers of a key ask for its lock once a second, 2 s for each.
 */
const START_MS = 45_000;

/** The most connections for each purpose; the broker's own small objects need few. */
export interface ManagedConnections {
  readonly objects: number;
  readonly custody: number;
  readonly upkeep: number;
}

const FEW: ManagedConnections = { objects: 8, custody: 4, upkeep: 4 };

export async function openManagedStore(
  config: ManagedSettings,
  log: Logger,
  connections: ManagedConnections = FEW,
): Promise<ManagedStore> {
  const bucket = {
    origin: config.S3_ENDPOINT.replace(/\/$/, ''),
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    addressing: config.S3_ADDRESSING,
  };
  const authority =
    config.S3_CA_FILE === undefined ? undefined : await watchAuthority(config.S3_CA_FILE, log);
  const poolOf = (most: number) => createPool(bucket, { connections: most, authority: authority?.current });
  const pools = {
    objects: poolOf(connections.objects),
    custody: poolOf(connections.custody),
    upkeep: poolOf(connections.upkeep),
  };
  // What looks for directories lists, too.
  const few: ReturnType<typeof listingFew> = config.S3_CREATE_BUCKET ? listingFew() : (client) => client;
  const clientOf = (key: () => AccessKey, pool: keyof typeof pools, limited: typeof few = few) =>
    clearingDirectories(
      limited(
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
          pools[pool],
          undefined,
          config.S3_LONG_SECONDS * 1_000,
        ),
        pool,
      ),
    );
  let key: WatchedKey | undefined;
  const close = async () => {
    key?.close();
    authority?.close();
    await Promise.all(Object.values(pools).map((pool) => pool.destroy()));
  };
  try {
    const watched = await watchKey(
      { id: config.S3_ACCESS_KEY_FILE, secret: config.S3_SECRET_KEY_FILE },
      {
        log,
        tryOut: async (next) => {
          const signal = AbortSignal.timeout(TRY_OUT_MS);
          await clientOf(() => next, 'upkeep').list({ prefix: 'space-key/', limit: 1 }, { signal });
        },
      },
    );
    key = watched;
    const clients = {
      s3: clientOf(watched.current, 'objects'),
      // Its own folders are small, and what Capsules list must not delay it.
      custody: clientOf(watched.current, 'custody', (client) => client),
      upkeep: clientOf(watched.current, 'upkeep'),
    };
    await answered(log, (signal) =>
      config.S3_CREATE_BUCKET
        ? clients.upkeep.createBucket({ signal })
        : requireFit(clients.upkeep, { bucket: config.S3_BUCKET, key: `space-fit/${randomUUID()}` }, signal),
    );
    const refresh = async () => {
      await authority?.refresh();
      await watched.refresh();
    };
    return { ...clients, refresh, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Waits for the server, which may start together with the broker. */
async function answered(log: Logger, ask: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const deadline = Date.now() + COMES_UP_MS;
  for (;;) {
    try {
      return await ask(AbortSignal.timeout(START_MS));
    } catch (error) {
      const waits = error instanceof S3Error && (error.kind !== 'answered' || error.isPassing);
      if (!waits || Date.now() > deadline) throw error;
      log.warn({ err: error }, 'waiting for the S3 server');
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

export interface PoolOptions {
  /** The most connections; a running stream uses one. */
  readonly connections: number;
  /** The authorities of the upstream's certificate; by default those of the system. */
  readonly authority?: AuthorityNow | undefined;
}

/** Kept connections to one upstream, with a limit for every wait. */
export function createPool(
  target: Parameters<typeof routeOf>[0],
  { connections, authority }: PoolOptions,
): Pool {
  const dial = verifyingConnector(
    { allowH2: false, timeout: 5_000, keepAlive: true, noDelay: true },
    authority,
  );
  return new Pool(routeOf(target).origin, {
    connections,
    pipelining: 1,
    allowH2: false,
    connect: (to, done) =>
      dial(to, (...[error, socket]) =>
        error === null ? done(null, hearing(freeing(socket))) : done(error, null),
      ),
    headersTimeout: PATIENCE.headMs,
    bodyTimeout: PATIENCE.pieceMs,
    keepAliveTimeout: 20_000,
    maxHeaderSize: 16 * 1024,
    strictContentLength: true,
  });
}
