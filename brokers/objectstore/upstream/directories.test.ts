import type { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { type Between, startBetween } from '../testing/between.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from './client.ts';
import { S3Error, toServiceError } from './errors.ts';
import { clearingDirectories } from './folders.ts';
import { createPool } from './managed.ts';
import type { S3Client } from './types.ts';

/** The chart's S3 server has a directory for each prefix, and removes it with its last object. */

let server: S3Server;
let between: Between;
let pool: Pool;
let s3: S3Client;
beforeAll(async () => {
  server = await startS3Server();
  server.makeBucket('bucket');
  between = await startBetween(server);
  const target = targetAt(server, 'bucket', between.endpoint);
  pool = createPool(target, { connections: 2 });
  s3 = clearingDirectories(createS3Client(target, pool));
  await s3.put('from', Buffer.from('x'));
});
afterAll(async () => {
  await pool?.destroy();
  await between?.close();
  await server?.remove();
});

const failure = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => (error instanceof S3Error ? error : Promise.reject(error)),
  );

describe.each<[string, (key: string) => Promise<unknown>]>([
  ['put', (key) => s3.put(key, Buffer.from('x'))],
  ['copied', (key) => s3.copy('from', key)],
])('an object that is %s', (what, write) => {
  it('may be requested again if its directory was removed in the meantime', async () => {
    between.fate = ({ method }) =>
      method === 'PUT' ? { status: 409, code: 'ExistingObjectIsDirectory' } : 'pass';
    const failed = await failure(write('went/object'));
    between.fate = () => 'pass';
    expect(toServiceError(failed)).toMatchObject({ code: 'unavailable', retryAfter: 1 });
  });

  it('is refused under the name of a directory, and while it is unknown whether it is one', async () => {
    await s3.put(`${what}-under/object`, Buffer.from('x'));
    await s3.put(`${what}-marked/`, Buffer.from(''));
    for (const key of [`${what}-under`, `${what}-marked`]) {
      expect((await failure(write(key)))?.code).toBe('ExistingObjectIsDirectory');
      between.fate = ({ method }) => (method === 'GET' ? { status: 500, code: 'InternalError' } : 'pass');
      expect((await failure(write(key)))?.code).toBe('ExistingObjectIsDirectory');
      between.fate = () => 'pass';
    }
  });
});

it('an upload under the name of a directory is completed once the directory is removed', async () => {
  await s3.put('large/object', Buffer.from('x'));
  const id = await s3.createUpload('large');
  const parts = [{ number: 1, ...(await s3.putPart('large', id, 1, Buffer.from('x'))) }];
  const refused = await failure(s3.completeUpload('large', id, parts));
  expect(toServiceError(refused).code).toBe('upstream_failed');
  await s3.delete('large/object');
  await expect(s3.completeUpload('large', id, parts)).resolves.toMatchObject({ etag: expect.any(String) });
});
