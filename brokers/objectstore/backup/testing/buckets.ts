import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateX25519Identity } from 'age-encryption';
import { type S3Server, startS3Server } from '../../../../testing/s3.ts';
import { targetAt } from '../../testing/target.ts';
import { createS3Client } from '../../upstream/client.ts';
import { createPool } from '../../upstream/managed.ts';
import type { S3Client } from '../../upstream/types.ts';
import { runBackup } from '../commands.ts';
import { listed } from '../pieces.ts';
import type { Clock } from '../retrying.ts';
import type { Run } from '../run.ts';
import { createSealer } from '../sealer.ts';
import { createVault } from '../vault.ts';

export const PREFIX = 'home';
const SPACE = 'test';

export interface Servers {
  readonly s3: S3Server;
  readonly identity: string;
  /** Creates a bucket with a new name, and a client for it. */
  bucket(): { readonly name: string; readonly s3: S3Client };
  /** Writes a file and returns its path. */
  write(name: string, text: string): string;
  close(): Promise<void>;
}

/** One real S3 server for both ends of all tests of a file, which share no bucket. */
export async function startServers(): Promise<Servers> {
  const s3 = await startS3Server();
  const directory = mkdtempSync(join(tmpdir(), 'space-backup-'));
  const pools: { destroy(): Promise<void> }[] = [];
  let count = 0;
  return {
    s3,
    identity: await generateX25519Identity(),
    bucket: () => {
      count += 1;
      const name = `bucket-${count}`;
      s3.makeBucket(name);
      const target = targetAt(s3, name);
      const pool = createPool(target, { connections: 16 });
      pools.push(pool);
      return { name, s3: createS3Client(target, pool) };
    },
    write: (name, text) => {
      const path = join(directory, name);
      writeFileSync(path, text, { mode: 0o600 });
      return path;
    },
    close: async () => {
      await Promise.all(pools.map((pool) => pool.destroy()));
      await s3.remove();
      rmSync(directory, { recursive: true });
    },
  };
}

/** A clock that advances by a second whenever it is read, from a time that tests may set. */
export function steps(from = new Date()): Clock & { set(time: Date): void } {
  let at = from.getTime();
  return {
    now: () => {
      at += 1_000;
      return new Date(at);
    },
    set: (time) => {
      at = time.getTime();
    },
    pause: async () => undefined,
  };
}

const sourceOf = (s3: S3Client) => ({ s3, clock: steps(), signal: new AbortController().signal });

export async function runOf(
  servers: Servers,
  bucket: S3Client,
  backup: S3Client,
  more: Partial<Run> & { readonly identity?: string } = {},
): Promise<Run> {
  const { identity = servers.identity, ...rest } = more;
  return {
    space: SPACE,
    bucket,
    vault: createVault(backup, await createSealer(`# a comment\n${identity}\n`), PREFIX, steps()),
    clock: steps(),
    signal: new AbortController().signal,
    atOnce: 4,
    ...rest,
  };
}

/** The command as an administrator runs it. */
export async function command(
  servers: Servers,
  buckets: { readonly bucket: string; readonly backup: string },
  args: readonly string[],
  environment: Record<string, string> = {},
): Promise<{ readonly code: number; readonly out: string[]; readonly error: string }> {
  const { s3, identity, write } = servers;
  const [out, errors]: [string[], string[]] = [[], []];
  const files = {
    access: write('access', s3.accessKeyId),
    secret: write('secret', `${s3.secretAccessKey}\n`),
  };
  const code = await runBackup({
    args,
    environment: {
      SPACE_NAME: SPACE,
      S3_ENDPOINT: s3.endpoint,
      S3_BUCKET: buckets.bucket,
      S3_ACCESS_KEY_FILE: files.access,
      S3_SECRET_KEY_FILE: files.secret,
      BACKUP_S3_ENDPOINT: s3.endpoint,
      BACKUP_S3_BUCKET: buckets.backup,
      BACKUP_S3_PREFIX: PREFIX,
      BACKUP_S3_ACCESS_KEY_FILE: files.access,
      BACKUP_S3_SECRET_KEY_FILE: files.secret,
      BACKUP_IDENTITY_FILE: write('identity', identity),
      ...environment,
    },
    clock: { now: () => new Date(), pause: async () => undefined },
    signal: new AbortController().signal,
    out: (line) => out.push(line),
    error: (line) => errors.push(line),
  });
  return { code, out, error: errors.join('\n') };
}

/** All of a bucket: bytes, headers and entity tag of each object, by key. */
export async function everything(s3: S3Client): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for await (const { key, etag, size } of listed(sourceOf(s3), '')) {
    const { headers, body } = await s3.read(key, 64 * 1024 * 1024);
    const kept = Object.entries(headers).filter(([name]) =>
      /^(?:x-amz-meta-|content-|cache-|expires)/.test(name),
    );
    found[key] = { etag, size, headers: Object.fromEntries(kept), body: body.toString('base64') };
  }
  return found;
}

export async function keysOf(s3: S3Client, prefix = ''): Promise<string[]> {
  const all = await Array.fromAsync(listed(sourceOf(s3), prefix));
  return all.map(({ key }) => key);
}

const WRITES = [
  'put',
  'putPart',
  'createUpload',
  'completeUpload',
  'delete',
  'deleteMany',
  'abortUpload',
  'createBucket',
];

/** A program that is killed: at its n-th write, before or after that was done, everything it asks for ends for good. */
export class Kill extends Error {
  #left: number;
  readonly #when: 'before' | 'after';
  isDead = false;

  constructor(write: number, when: 'before' | 'after') {
    super('killed');
    this.#left = write;
    this.#when = when;
  }

  over(s3: S3Client): S3Client {
    return new Proxy(s3, {
      get: (client, name) => {
        const method: unknown = Reflect.get(client, name);
        if (typeof method !== 'function') return method;
        return async (...args: unknown[]) => {
          if (this.isDead) throw this;
          const isLast = WRITES.includes(String(name)) && --this.#left === 0;
          if (isLast && this.#when === 'before') this.isDead = true;
          if (this.isDead) throw this;
          const result: unknown = await Reflect.apply(method, client, args);
          if (isLast) this.isDead = true;
          if (this.isDead) throw this;
          return result;
        };
      },
    });
  }
}

export function random(bytes: number): Buffer {
  return randomBytes(bytes);
}
