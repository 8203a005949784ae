import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { type Between, startBetween } from '../testing/between.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from '../upstream/client.ts';
import { toServiceError } from '../upstream/errors.ts';
import { createPool } from '../upstream/managed.ts';
import type { S3Client } from '../upstream/types.ts';
import { sparingDisk } from './own-disk.ts';

/** Writes whose answer is lost: their folders are checked when the server has completed them. */

const PREFIX = `c/${'0'.repeat(40)}/s/`;

let server: S3Server;
let between: Between;
let pool: Pool;
let s3: S3Client;
beforeAll(async () => {
  server = await startS3Server();
  server.makeBucket('bucket');
  between = await startBetween(server);
  between.fate = ({ method }) => (method === 'PUT' ? 'lost' : 'pass');
  const target = targetAt(server, 'bucket', between.endpoint);
  pool = createPool(target, { connections: 2 });
  s3 = sparingDisk(createS3Client(target, pool), 1_000);
});
afterAll(async () => {
  await pool?.destroy();
  await between?.close();
  await server?.remove();
});

const onDisk = (key: string) => join(server.directory, 'bucket', PREFIX, key);

test('folders of a write that has failed without an answer are removed', async () => {
  await expect(s3.put(`${PREFIX}a/b/c`, Buffer.from('x'))).rejects.toMatchObject({ kind: 'unreachable' });
  rmSync(onDisk('a/b/c'));
  expect(existsSync(onDisk('a/b'))).toBe(true);
  await eventually(() => !existsSync(onDisk('a')), { what: 'the folders to go' });
});

test('the folder of an object that was stored nevertheless stays', async () => {
  const looked = Promise.withResolvers<void>();
  between.begun = ({ url }) => {
    if (url?.includes(encodeURIComponent(`${PREFIX}d/e/`))) looked.resolve();
  };
  await expect(s3.put(`${PREFIX}d/e/f`, Buffer.from('x'))).rejects.toMatchObject({ kind: 'unreachable' });
  await looked.promise;
  // The server may still be storing it.
  await eventually(
    async () =>
      (await s3.list({ prefix: PREFIX, limit: 10 })).objects.some(({ key }) => key === `${PREFIX}d/e/f`),
    { what: 'the object to be stored' },
  );
});

describe('an upload that cannot be completed', () => {
  const failure = (work: Promise<unknown>) => work.catch((error: unknown) => error);
  async function begun(key: string) {
    between.fate = () => 'pass';
    const id = await s3.createUpload(PREFIX + key);
    const parts = [{ number: 1, ...(await s3.putPart(PREFIX + key, id, 1, Buffer.from('x'))) }];
    return () => s3.completeUpload(PREFIX + key, id, parts);
  }

  test.each(['large/object', 'marked/'])('because %s exists is refused like a put', async (beneath) => {
    const name = beneath.slice(0, beneath.indexOf('/'));
    const complete = await begun(name);
    await s3.put(PREFIX + beneath, Buffer.from(beneath.endsWith('/') ? '' : 'x'));
    const put = await failure(s3.put(PREFIX + name, Buffer.from('x')));
    const refused = await failure(complete());
    expect(toServiceError(refused).code).toBe('conflict');
    expect(toServiceError(refused).code).toBe(toServiceError(put).code);
    await s3.delete(PREFIX + beneath);
    await expect(complete()).resolves.toMatchObject({ etag: expect.any(String) });
  });

  test('for a moment, although nothing conflicts, returns the server’s error', async () => {
    const complete = await begun('moment');
    between.fate = ({ method, url }) =>
      method === 'POST' && url?.includes('uploadId') ? { status: 500, code: 'InternalError' } : 'pass';
    expect(toServiceError(await failure(complete())).code).toBe('upstream_failed');
    between.fate = () => 'pass';
    await expect(complete()).resolves.toMatchObject({ etag: expect.any(String) });
  });
});
