import {
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clientOf } from '../api/s3/testing/clients.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** How much an object may have in headers, on a real S3 server: what is stored can be read, and more is refused before. */

let fixture: Fixture;
let me: Assistant;
let s3: S3Client;
beforeAll(async () => {
  fixture = await openFixture();
  me = await newAssistant(fixture.broker);
  s3 = await clientOf(fixture.broker.dataUrl, me);
});
afterAll(async () => {
  s3?.destroy();
  await fixture?.close();
});

const Bucket = 'data';
const refusal = (act: Promise<unknown>) =>
  act.then(
    () => 'ok',
    (error: unknown) =>
      error instanceof S3ServiceException ? `${error.$metadata.httpStatusCode} ${error.name}` : String(error),
  );
const large = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`m${i}`, 'v'.repeat(1_000)]));
/** So many headers of 16 to 19 bytes, of which S3 counts only the last ones. */
const small = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-object-meta-${i.toString(36)}`, '']));
const metadata = (count: number) =>
  Object.fromEntries(Object.entries(large(count)).map(([name, value]) => [`x-object-meta-${name}`, value]));
const about = (bytes: number) =>
  Object.fromEntries(
    [
      'content-type',
      'content-disposition',
      'content-encoding',
      'content-language',
      'cache-control',
      'expires',
    ].map((name) => [name, 'v'.repeat(bytes)]),
  );

describe('metadata of more than 2 KiB', () => {
  it.each([
    ['a put', (Key: string) => new PutObjectCommand({ Bucket, Key, Body: 'x', Metadata: large(6) })],
    [
      'an upload in parts',
      (Key: string) => new CreateMultipartUploadCommand({ Bucket, Key, Metadata: large(6) }),
    ],
    [
      'a copy',
      (Key: string) =>
        new CopyObjectCommand({
          Bucket,
          Key,
          CopySource: `${Bucket}/source`,
          MetadataDirective: 'REPLACE',
          Metadata: large(6),
        }),
    ],
  ])('is refused to %s with the code of S3', async (_, command) => {
    await me.put('source', 'x');
    expect(await refusal(s3.send(command('large') as PutObjectCommand))).toBe('400 MetadataTooLarge');
    expect(await refusal(s3.send(new HeadObjectCommand({ Bucket, Key: 'large' })))).toBe('404 NotFound');
    expect(
      await refusal(s3.send(new PutObjectCommand({ Bucket, Key: 'two', Body: 'x', Metadata: large(2) }))),
    ).toBe('ok');
  });
});

describe('an object with many headers', () => {
  /** Whether it is stored; then it must be readable with all of them. */
  async function stored(key: string, headers: Record<string, string>): Promise<boolean> {
    const put = await me.put(key, 'x', headers);
    // The broker's own listener takes no head of over 32 KiB.
    if (put.status === 400 || put.status === 431) {
      expect(put.json.error.code).toBe('invalid_request');
      expect((await me.get(key)).status).toBe(404);
      return false;
    }
    expect(put.status).toBe(200);
    for (const method of ['GET', 'HEAD']) {
      const read = await me.call(method, `/v1/objects/data/${key}`);
      expect(read.status).toBe(200);
      expect(Object.fromEntries(read.headers)).toMatchObject(headers);
    }
    return true;
  }

  it.each([
    [0, 500],
    [0, 1_024],
    [40, 300],
    [250, 0],
    [1_000, 0],
  ])('is stored and read, or refused: %i names, and %i bytes of each other', async (count, bytes) => {
    await stored(`many-${count}-${bytes}`, { ...small(count), ...(bytes > 0 ? about(bytes) : {}) });
  });

  it.each(['v', '<', '"', '\\'])(
    'is stored up to a limit, and refused above it, with values of %s',
    async (char) => {
      const found: boolean[] = [];
      for (const bytes of [100, 200, 300, 400, 500, 540, 560, 600, 1_000])
        found.push(
          await stored(`up-${char.charCodeAt(0)}-${bytes}`, {
            'x-object-meta-a': char.repeat(bytes),
            'x-object-meta-b': char.repeat(bytes),
            'cache-control': char.repeat(bytes),
            'content-disposition': 'v'.repeat(bytes),
          }),
        );
      expect(found.at(0)).toBe(true);
      expect(found.at(-1)).toBe(false);
      expect(found).toEqual(found.toSorted((a, b) => Number(b) - Number(a)));
    },
  );

  it('is stored beside a key that takes most of a request', async () => {
    const key = Array.from({ length: 3 }, () => encodeURIComponent('€'.repeat(75))).join('/');
    expect(await stored(key, { 'content-disposition': 'v'.repeat(900), ...metadata(2) })).toBe(true);
  });
});
