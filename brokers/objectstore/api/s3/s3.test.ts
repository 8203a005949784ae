import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import {
  ChecksumAlgorithm,
  GetObjectCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListObjectsCommand,
  PutObjectCommand,
  S3Client,
  type S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../../testing/assistant.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { clientOf, keysOf } from './testing/clients.ts';

/** What the AWS SDK for JavaScript does beyond the table of `cases.test.ts`: streams, and how it finds and uses keys. */

const MIB = 1024 * 1024;
const Bucket = 'data';

let fixture: Fixture;
let url: string;
let me: Assistant;
let s3: S3Client;

beforeAll(async () => {
  fixture = await openFixture();
  url = fixture.broker.dataUrl;
  me = await newAssistant(fixture.broker);
  s3 = await clientOf(url, me);
});

afterAll(async () => {
  s3?.destroy();
  await fixture?.close();
});

/** The name and status of the error that an S3 call ends with. */
async function refusal(act: Promise<unknown>): Promise<string> {
  try {
    await act;
  } catch (error) {
    const { name, $metadata } = error as S3ServiceException;
    return `${$metadata?.httpStatusCode} ${name}`;
  }
  return 'ok';
}

async function stored(Key: string): Promise<Buffer> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return Buffer.from((await Body?.transformToByteArray()) ?? []);
}

describe('a stream', () => {
  test.each([
    ChecksumAlgorithm.CRC32,
    ChecksumAlgorithm.CRC32C,
    ChecksumAlgorithm.CRC64NVME,
    ChecksumAlgorithm.SHA1,
    ChecksumAlgorithm.SHA256,
  ])('is verified by %s in its trailer', async (algorithm) => {
    const body = randomBytes(70_000);
    const Key = `stream-${algorithm}`;
    const params = { Bucket, Key, Body: Readable.from([body]), ChecksumAlgorithm: algorithm };
    await new Upload({ client: s3, params }).done();
    expect((await stored(Key)).equals(body)).toBe(true);
    await s3.send(
      new PutObjectCommand({
        ...params,
        Body: Readable.from([body.subarray(0, 10), body.subarray(10)]),
        ContentLength: body.length,
      }),
    );
    expect((await s3.send(new HeadObjectCommand({ Bucket, Key }))).ContentLength).toBe(body.length);
  });

  test('of unknown length is uploaded in parts', async () => {
    const body = randomBytes(12 * MIB);
    const Body = Readable.from([body.subarray(0, 7), body.subarray(7)]);
    await new Upload({
      client: s3,
      params: { Bucket, Key: 'unknown', Body },
      partSize: 5 * MIB,
      queueSize: 2,
    }).done();
    expect((await stored('unknown')).equals(body)).toBe(true);
  });
});

describe('a signature', () => {
  test('of a wrong or unknown key or with another region is refused in the same way', async () => {
    const keys = await keysOf(me);
    const good = { accessKeyId: keys.AccessKeyId, secretAccessKey: keys.SecretAccessKey };
    for (const credentials of [
      { ...good, secretAccessKey: `${good.secretAccessKey.slice(0, -1)}_` },
      { ...good, accessKeyId: `SPCK${'0'.repeat(32)}` },
      { ...good, accessKeyId: 'AKIAIOSFODNN7EXAMPLE' },
      { ...good, sessionToken: 'x' },
    ]) {
      const client = await clientOf(url, me, { credentials });
      expect(await refusal(client.send(new ListBucketsCommand({})))).toMatch(/^403 AccessDenied|^501/);
    }
    for (const region of ['us-east-1', 'eu-west-3', 'auto', 'space'])
      expect(await refusal((await clientOf(url, me, { region })).send(new ListBucketsCommand({})))).toBe(
        'ok',
      );
  });

  test('of another time is refused', async () => {
    for (const minutes of [-16, 16]) {
      const client = await clientOf(url, me, { systemClockOffset: minutes * 60_000 });
      expect(await refusal(client.send(new ListBucketsCommand({})))).toMatch(/^403/);
    }
    const client = await clientOf(url, me, { systemClockOffset: 10 * 60_000 });
    expect(await refusal(client.send(new ListBucketsCommand({})))).toBe('ok');
  });

  test('of a retired principal is refused', async () => {
    const { broker } = fixture;
    const capsule = await broker.capsule('leaving');
    const client = await clientOf(url, assistant(url, await broker.workload(capsule, 'leaving', 'app')));
    expect(await refusal(client.send(new ListBucketsCommand({})))).toBe('ok');
    await capsule.drop('leaving', 'app');
    expect(await refusal(client.send(new ListBucketsCommand({})))).toBe('403 AccessDenied');
  });

  test('covers the body', async () => {
    const client = await clientOf(url, me);
    client.middlewareStack.add(
      (next) => (args) => {
        (args.request as { headers: Record<string, string> }).headers['x-amz-meta-added'] = 'later';
        return next(args);
      },
      { step: 'finalizeRequest', priority: 'low' },
    );
    expect(await refusal(client.send(new PutObjectCommand({ Bucket, Key: 'a', Body: 'b' })))).toMatch(/^403/);
  });
});

test('an SDK finds its keys by itself, as in a container', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'space-token-'));
  const file = join(directory, 'token');
  writeFileSync(file, me.token);
  const environment = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/s3/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    AWS_CONFIG_FILE: join(directory, 'none'),
    AWS_SHARED_CREDENTIALS_FILE: join(directory, 'none'),
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  try {
    const client = new S3Client({
      endpoint: url,
      region: 'us-east-1',
      forcePathStyle: true,
    });
    expect((await client.send(new ListBucketsCommand({}))).Buckets).toHaveLength(2);
    client.destroy();
  } finally {
    vi.unstubAllEnvs();
    rmSync(directory, { recursive: true });
  }
});

test('both protocols see the same objects', async () => {
  const put = { Bucket, Key: 'same', Body: 'from s3', Metadata: { a: 'b' } };
  await s3.send(new PutObjectCommand(put));
  const read = await me.get('same');
  expect([read.text, read.headers.get('x-object-meta-a')]).toEqual(['from s3', 'b']);
  await me.put('same', 'from json');
  expect(String(await stored('same'))).toBe('from json');
});

test('a list in pages goes on behind the longest common prefix', async () => {
  const parent = Array.from({ length: 3 }, () => 'p'.repeat(255)).join('/');
  const folders = ['a', 'b'].map((last) => `${parent}/${last.repeat(130)}/`);
  for (const folder of folders) expect((await me.put(`${folder}x`, '')).status).toBe(200);
  const page = (Marker?: string) =>
    s3.send(new ListObjectsCommand({ Bucket, Prefix: `${parent}/`, Delimiter: '/', MaxKeys: 1, Marker }));
  const first = await page();
  expect(first.CommonPrefixes).toEqual([{ Prefix: folders[0] }]);
  expect((await page(first.NextMarker)).CommonPrefixes).toEqual([{ Prefix: folders[1] }]);
});
