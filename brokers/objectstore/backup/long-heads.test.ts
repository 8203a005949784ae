import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { portOf, Secret } from '@space/broker-kit';
import { generateX25519Identity } from 'age-encryption';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createS3Client } from '../upstream/client.ts';
import { createPool } from '../upstream/managed.ts';
import { type Opened, openRun } from './open.ts';
import { upload } from './uploading.ts';

/** As S3 servers take heads of 8 KiB, versitygw among them. */
let server: Server;
let directory: string;
let opened: Opened;
const writes: string[] = [];
beforeAll(async () => {
  server = createServer({ maxHeaderSize: 8 * 1024 }, (request, response) => {
    request.resume().on('end', () => {
      writes.push(`${request.method} ${request.url}`);
      response.setHeader('etag', '"x"');
      response.end('<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  directory = mkdtempSync(join(tmpdir(), 'space-heads-'));
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  const [access, secret] = [file('access', 'a'.repeat(128)), file('secret', 'secret')];
  opened = await openRun(
    {
      ...{ SPACE_NAME: 'test', S3_ENDPOINT: origin(), S3_REGION: `eu-${'central-'.repeat(3)}1` },
      ...{ S3_BUCKET: `b${'u'.repeat(62)}`, S3_ADDRESSING: 'path', S3_CREATE_BUCKET: false },
      ...{ S3_ACCESS_KEY_FILE: access, S3_SECRET_KEY_FILE: secret, S3_CA_FILE: undefined },
      ...{ BACKUP_S3_ENDPOINT: origin(), BACKUP_S3_REGION: 'us-east-1', BACKUP_S3_BUCKET: 'backup' },
      ...{ BACKUP_S3_PREFIX: 'home', BACKUP_S3_ADDRESSING: 'path', BACKUP_S3_CA_FILE: undefined },
      ...{ BACKUP_S3_ACCESS_KEY_FILE: access, BACKUP_S3_SECRET_KEY_FILE: secret, S3_LONG_SECONDS: 60 },
      ...{ BACKUP_IDENTITY_FILE: file('identity', await generateX25519Identity()), BACKUP_KEEP_DAYS: 1 },
    },
    { now: () => new Date(), pause: async () => undefined },
    new AbortController().signal,
  );
});
afterAll(async () => {
  await opened?.close();
  server?.closeAllConnections();
  server?.close();
  if (directory !== undefined) rmSync(directory, { recursive: true });
});

const origin = () => `http://127.0.0.1:${portOf(server)}`;
const named = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-amz-meta-${i.toString(36)}`, '']));
async function* one(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('x');
}

it('restores what a Capsule may just store, also into a bucket with a longer name and key', async () => {
  const accessKeyId = new Secret('space');
  const route = { origin: origin(), region: 'us-east-1', bucket: 'abc', addressing: 'path' as const };
  const target = { ...route, accessKeyId, secretAccessKey: new Secret('secret') };
  const pool = createPool(target, { connections: 1 });
  const caller = createS3Client(target, pool);
  const key = `c/${'0'.repeat(40)}/a/${'1'.repeat(32)}/key`;
  // An upload in parts has the shortest request of all that store headers. It is restored by a put where its parts have no one size.
  let most = 0;
  while (
    await caller.createUpload(key, { headers: named(most + 1) }).then(
      () => true,
      () => false,
    )
  )
    most += 1;
  await pool.destroy();
  expect(most).toBeGreaterThan(100);
  const { bucket: s3, clock, signal } = opened.run;
  const records = 'completions/';
  await upload({ s3, clock, signal }, { key, bytes: one(), length: 1, headers: named(most), records });
  expect(writes.at(-1)).toMatch(/^PUT \/bu+\/c\/0+\/a\/1+\/key$/);
});
