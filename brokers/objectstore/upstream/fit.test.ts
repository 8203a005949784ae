import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '@space/broker-kit';
import type { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makeAuthority } from '../../../testing/certificates.ts';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { createS3Client } from './client.ts';
import { S3Error } from './errors.ts';
import { requireFit, UnfitBucketError } from './fit.ts';
import { createPool } from './managed.ts';
import { createTransport } from './transport.ts';
import type { S3Client } from './types.ts';

const KEY = 'space-fit/1';
let server: S3Server;
let pools: Pool[] = [];

beforeAll(async () => {
  server = await startS3Server({ versions: true });
  server.makeBucket('good');
});
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.destroy()));
  pools = [];
  await server.remove();
});

function targetOf(bucket: string, at: S3Server = server, secret = at.secretAccessKey) {
  const { endpoint: origin, region, accessKeyId } = at;
  const target = {
    ...{ origin, region, bucket },
    addressing: 'path' as const,
    accessKeyId: new Secret(accessKeyId),
    secretAccessKey: new Secret(secret),
  };
  const pool = createPool(target, { connections: 2 });
  pools.push(pool);
  return { target, pool };
}

function clientOf(...of: Parameters<typeof targetOf>): S3Client {
  const { target, pool } = targetOf(...of);
  return createS3Client(target, pool);
}

const tried = (s3: S3Client, bucket = 'good') =>
  requireFit(s3, { bucket, key: KEY }, AbortSignal.timeout(60_000));

describe('a bucket that the administrator created', () => {
  it('passes if it has the required properties, and nothing of the test stays', async () => {
    await tried(clientOf('good'));
    expect(readdirSync(join(server.directory, 'good'))).not.toContain('space-fit');
  });

  it('is refused if it does not exist, and if the key is wrong, with a message for each', async () => {
    await expect(tried(clientOf('missing'), 'missing')).rejects.toThrow(
      /"missing" cannot be the Space's: it does not exist/,
    );
    const wrong = clientOf('good', server, 'canary-of-a-secret-key');
    const refused = await tried(wrong).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UnfitBucketError);
    expect(String(refused)).toMatch(/secret key does not belong to the access key/);
    expect(String(refused)).not.toContain('canary');
  });

  it('is refused when it is versioned', async () => {
    server.makeBucket('versioned');
    const { target, pool } = targetOf('versioned');
    const status = '<Status>Enabled</Status>';
    const body = Buffer.from(
      `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${status}</VersioningConfiguration>`,
    );
    await createTransport(target, pool, () => new Date()).small({
      method: 'PUT',
      query: { versioning: '' },
      headers: {},
      body,
    });
    await expect(tried(createS3Client(target, pool), 'versioned')).rejects.toThrow(/it is versioned/);
  });

  it('is refused if its server overwrites in spite of a condition', async () => {
    const client = clientOf('good');
    const careless: S3Client = { ...client, put: (key, content) => client.put(key, content) };
    await expect(tried(careless)).rejects.toThrow(/in spite of If-None-Match/);
    expect(readdirSync(join(server.directory, 'good'))).not.toContain('space-fit');
  });

  it('is not refused if the second write only failed', async () => {
    const client = clientOf('good');
    let writes = 0;
    const failing: S3Client = {
      ...client,
      put: async (...args) => {
        writes += 1;
        if (writes === 2) throw new S3Error('unreachable', 0, 'ECONNRESET');
        return client.put(...args);
      },
    };
    await expect(tried(failing)).rejects.toMatchObject({ name: 'S3Error', kind: 'unreachable' });
  });

  it('whose server is temporarily unable is waited for', async () => {
    const client = clientOf('good');
    const put = () => Promise.reject(new S3Error('answered', 503, 'SlowDownWrite'));
    await expect(tried({ ...client, put })).rejects.toMatchObject({ name: 'S3Error', status: 503 });
  });

  it('is refused if its server has a certificate of an unknown CA', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'space-fit-'));
    const tls = makeAuthority(directory, 'other').sign('s3', ['IP:127.0.0.1']);
    const foreign = await startS3Server({ tls });
    onTestFinished(async () => {
      await foreign.remove();
      rmSync(directory, { recursive: true });
    });
    foreign.makeBucket('good');
    await expect(tried(clientOf('good', foreign))).rejects.toThrow(/certificate is not from an authority/);
  });

  it('that does not answer is waited for', async () => {
    await server.kill();
    await expect(tried(clientOf('good'))).rejects.toMatchObject({ name: 'S3Error', kind: 'unreachable' });
    await server.start();
  });
});
