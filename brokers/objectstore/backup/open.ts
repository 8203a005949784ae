import { readFile } from 'node:fs/promises';
import { ConfigError, Secret } from '@space/broker-kit';
import { createS3Client } from '../upstream/client.ts';
import type { KeyFiles } from '../upstream/credential-files.ts';
import { S3Error } from '../upstream/errors.ts';
import { clearingDirectories } from '../upstream/folders.ts';
import { createPool } from '../upstream/managed.ts';
import type { Target } from '../upstream/target.ts';
import type { S3Client } from '../upstream/types.ts';
import type { Config } from './config.ts';
import { DestinationError } from './errors.ts';
import type { Clock } from './retrying.ts';
import type { Run } from './run.ts';
import { createSealer } from './sealer.ts';
import type { States } from './states.ts';
import { createVault } from './vault.ts';

/** Objects that are copied at the same time; each needs a connection on either side and some hundred KiB. */
const AT_ONCE = 8;
/** Connections in addition to those of the objects, for lists and for reading parts. */
const CONNECTIONS = 2 * AT_ONCE + 4;

export interface Opened {
  readonly run: Run;
  readonly states: States;
  close(): Promise<void>;
}

/** Opens only the destination, for states that are sealed already. */
export async function openStates(config: Config, clock: Clock, signal: AbortSignal) {
  const to = {
    origin: config.BACKUP_S3_ENDPOINT.replace(/\/$/, ''),
    region: config.BACKUP_S3_REGION,
    bucket: config.BACKUP_S3_BUCKET,
    addressing: config.BACKUP_S3_ADDRESSING,
  };
  const files = { id: config.BACKUP_S3_ACCESS_KEY_FILE, secret: config.BACKUP_S3_SECRET_KEY_FILE };
  const longMs = config.S3_LONG_SECONDS * 1_000;
  const { s3, close } = await openEnd(BACKUP, to, { files, ca: config.BACKUP_S3_CA_FILE, longMs });
  const states: States = { s3, prefix: config.BACKUP_S3_PREFIX, clock, signal };
  return { to, states, close };
}

/** Reads keys and identity, and opens both sides. No server is contacted yet. */
export async function openRun(config: Config, clock: Clock, signal: AbortSignal): Promise<Opened> {
  const files = { id: config.S3_ACCESS_KEY_FILE, secret: config.S3_SECRET_KEY_FILE };
  const from = {
    origin: config.S3_ENDPOINT.replace(/\/$/, ''),
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    addressing: config.S3_ADDRESSING,
  };
  const { to, states, close } = await openStates(config, clock, signal);
  if (from.origin === to.origin && from.bucket === to.bucket)
    throw new ConfigError("BACKUP_S3_BUCKET is the Space's own bucket: name another, best on another server");
  const sealer = await createSealer(await readable('BACKUP_IDENTITY_FILE', config.BACKUP_IDENTITY_FILE));
  const longMs = config.S3_LONG_SECONDS * 1_000;
  const bucket = await openEnd(BUCKET, from, { files, ca: config.S3_CA_FILE, longMs });
  return {
    run: {
      space: config.SPACE_NAME,
      bucket: bucket.s3,
      vault: createVault(states.s3, sealer, config.BACKUP_S3_PREFIX, clock),
      clock,
      signal,
      atOnce: AT_ONCE,
    },
    states,
    close: async () => void (await Promise.all([bucket.close(), close()])),
  };
}

interface End {
  readonly what: string;
  readonly settings: string;
}

const BUCKET: End = { what: "the Space's bucket", settings: 'S3_' };
const BACKUP: End = { what: "the backup's bucket", settings: 'BACKUP_S3_' };

/** The server says itself what is too long: an object that is in the backup must not be refused before. */
const ANY_HEAD = { any: Number.POSITIVE_INFINITY, storing: Number.POSITIVE_INFINITY };

async function openEnd(
  end: End,
  target: Omit<Target, 'accessKeyId' | 'secretAccessKey'>,
  options: {
    readonly files: KeyFiles;
    readonly ca: string | undefined;
    readonly longMs: number;
  },
) {
  const { settings } = end;
  const id = await readable(`${settings}ACCESS_KEY_FILE`, options.files.id);
  const secret = await readable(`${settings}SECRET_KEY_FILE`, options.files.secret);
  const ca = options.ca === undefined ? undefined : await readable(`${settings}CA_FILE`, options.ca);
  const pool = createPool(target, {
    connections: CONNECTIONS,
    authority: ca === undefined ? undefined : () => ca,
  });
  const key = { accessKeyId: new Secret(id.trim()), secretAccessKey: new Secret(secret.trim()) };
  const client = createS3Client({ ...target, ...key }, pool, undefined, options.longMs, ANY_HEAD);
  const s3 = clearingDirectories(client);
  return { s3: blamed(s3, end), close: () => pool.destroy() };
}

async function readable(setting: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${setting} cannot be read: mount the file that it names`, { cause: error });
  }
}

/** The server, source or destination, that caused an S3Error. */
const ends = new WeakMap<S3Error, End>();

/** The same client, which records for each S3Error which side caused it. */
function blamed(s3: S3Client, end: End): S3Client {
  return new Proxy(s3, {
    get: (client, name) => {
      const method: unknown = Reflect.get(client, name);
      if (typeof method !== 'function') return method;
      return (...args: unknown[]) =>
        Promise.resolve(Reflect.apply(method, client, args)).catch((error: unknown) => {
          if (error instanceof S3Error && !ends.has(error)) ends.set(error, end);
          throw error;
        });
    },
  });
}

/** A server's failure as a sentence. */
export function sentenceOf(error: S3Error): string {
  const failed = error instanceof DestinationError ? error.cause : error;
  const { what, settings } = ends.get(failed) ?? { what: 'an S3 server', settings: 'S3_' };
  if (error.kind === 'answered')
    return `${what}: its server answers ${error.status} ${error.code}: look at the ${settings} settings, and at what the key may do there`;
  if (error.kind === 'tls')
    return `${what}: its server's certificate is not from an authority that ${settings}CA_FILE, or the system, has: name its authority there`;
  return `${what}: its server cannot be reached (${error.code}): look at ${settings}ENDPOINT and at what lies in between, and try again`;
}
