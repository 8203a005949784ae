/** The Space's bucket, the bucket for backups, and the program of the image that copies objects between them. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Secret } from '@space/broker-kit';
import { generateX25519Identity } from 'age-encryption';
import { createS3Client } from '../../../brokers/objectstore/upstream/client.ts';
import { createPool } from '../../../brokers/objectstore/upstream/managed.ts';
import type { S3Client } from '../../../brokers/objectstore/upstream/types.ts';
import { run } from '../../../e2e/cluster/run.ts';
import { bundle } from '../../../scripts/bundle.ts';
import { makeAuthority } from '../../certificates.ts';
import { startS3Server } from '../../s3.ts';
import type { Limit } from './limit.ts';
import { VAULT_BUCKET, VAULT_PREFIX, type Vault } from './server.ts';

const BACKUP = resolve(import.meta.dirname, '../../../dist/objectstore-broker/backup.mjs');

export interface Buckets extends Vault {
  /** A client of the Space's current bucket. */
  readonly client: S3Client;
  /** Replaces the Space's bucket by an empty one. */
  lose(): void;
  /** Runs `backup.mjs` as in its pod; returns the line that it printed. */
  backup(...args: readonly string[]): Promise<Readonly<Record<string, unknown>>>;
  remove(): Promise<void>;
}

export async function openBuckets(directory: string, limit: Limit): Promise<Buckets> {
  await mkdir(directory, { recursive: true });
  await bundle('objectstore-broker');
  const authority = makeAuthority(directory, 'authority');
  const [own, vault] = await Promise.all([
    startS3Server(),
    startS3Server({ tls: authority.sign('vault', ['DNS:localhost']), elsewhere: true }),
  ]);
  vault.makeBucket(VAULT_BUCKET);
  const files = {
    'own-access': own.accessKeyId,
    'own-secret': own.secretAccessKey,
    'vault-access': vault.accessKeyId,
    'vault-secret': vault.secretAccessKey,
    identity: await generateX25519Identity(),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const pools: { destroy(): Promise<void> }[] = [];
  let number = 0;
  const open = () => {
    number += 1;
    const bucket = `space-${number}`;
    own.makeBucket(bucket);
    const target = {
      origin: own.endpoint,
      region: own.region,
      bucket,
      addressing: 'path',
      accessKeyId: new Secret(own.accessKeyId),
      secretAccessKey: new Secret(own.secretAccessKey),
    } as const;
    const pool = createPool(target, { connections: 16 });
    pools.push(pool);
    return { bucket, client: createS3Client(target, pool) };
  };
  let current = open();
  const environment = () => ({
    PATH: process.env['PATH'],
    SPACE_NAME: 'home',
    S3_ENDPOINT: own.endpoint,
    S3_BUCKET: current.bucket,
    S3_ACCESS_KEY_FILE: join(directory, 'own-access'),
    S3_SECRET_KEY_FILE: join(directory, 'own-secret'),
    BACKUP_S3_ENDPOINT: vault.endpoint.replace('127.0.0.1', 'localhost'),
    BACKUP_S3_BUCKET: VAULT_BUCKET,
    BACKUP_S3_PREFIX: VAULT_PREFIX,
    BACKUP_S3_CA_FILE: authority.cert,
    BACKUP_S3_ACCESS_KEY_FILE: join(directory, 'vault-access'),
    BACKUP_S3_SECRET_KEY_FILE: join(directory, 'vault-secret'),
    BACKUP_IDENTITY_FILE: join(directory, 'identity'),
  });
  return {
    vault,
    ca: authority.cert,
    get client() {
      return current.client;
    },
    lose: () => {
      current = open();
    },
    backup: async (...args) => {
      const program: [string, ...string[]] = [process.execPath, BACKUP, ...args];
      const copies = args[0] === 'copy';
      const said = await run(copies ? limit.around(program) : program, {
        env: environment(),
      });
      return JSON.parse(said.trim().split('\n').at(-1) ?? '{}');
    },
    remove: async () => {
      await Promise.all(pools.map((pool) => pool.destroy()));
      await Promise.all([own.remove(), vault.remove()]);
    },
  };
}
