import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  ChecksumAlgorithm,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketLocationCommand,
  GetBucketVersioningCommand,
  GetObjectAclCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  ListPartsCommand,
  PutBucketPolicyCommand,
  PutObjectAclCommand,
  PutObjectCommand,
  S3Client,
  type S3ServiceException,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Stage, setStage } from '../testing/stage.ts';

/** The AWS SDK for JavaScript, as it comes, against the front. */

const MIB = 1024 * 1024;
const Bucket = 'data';

let stage: Stage;
let mine: Assistant;
let s3: S3Client;
let neighbour: S3Client;
let stranger: S3Client;

async function clientOf(
  one: Assistant,
  options: Partial<ConstructorParameters<typeof S3Client>[0]> = {},
): Promise<S3Client> {
  const { json } = await one.call('GET', '/v1/s3/credentials');
  return new S3Client({
    endpoint: stage.broker.dataUrl,
    region: 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: json.AccessKeyId, secretAccessKey: json.SecretAccessKey },
    ...options,
  });
}

beforeAll(async () => {
  stage = await setStage();
  const { broker } = stage;
  const capsule = await broker.capsule('home');
  mine = assistant(broker.dataUrl, await broker.workload(capsule, 'home', 'mine'));
  s3 = await clientOf(mine);
  neighbour = await clientOf(assistant(broker.dataUrl, await broker.workload(capsule, 'home', 'other')));
  stranger = await clientOf(await newAssistant(broker));
});

afterAll(async () => {
  for (const client of [s3, neighbour, stranger]) client?.destroy();
  await stage?.close();
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

const put = (Key: string, Body: string | Buffer, more = {}) =>
  s3.send(new PutObjectCommand({ Bucket, Key, Body, ...more }));

async function text(Key: string, more = {}): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key, ...more }));
  return (await Body?.transformToString()) ?? '';
}

describe('buckets', () => {
  test('are two, always there', async () => {
    const { Buckets } = await s3.send(new ListBucketsCommand({}));
    expect(Buckets?.map(({ Name }) => Name)).toEqual(['data', 'shared']);
    await s3.send(new HeadBucketCommand({ Bucket }));
    await s3.send(new HeadBucketCommand({ Bucket: 'shared' }));
    expect((await s3.send(new GetBucketLocationCommand({ Bucket }))).LocationConstraint).toBeFalsy();
    expect((await s3.send(new GetBucketVersioningCommand({ Bucket }))).Status).toBeUndefined();
  });

  test('are neither made nor removed, and no other is there', async () => {
    expect(await refusal(s3.send(new CreateBucketCommand({ Bucket })))).toBe('409 BucketAlreadyOwnedByYou');
    expect(await refusal(s3.send(new DeleteBucketCommand({ Bucket })))).toBe('405 MethodNotAllowed');
    for (const other of ['space', 'other'])
      expect(await refusal(s3.send(new ListObjectsV2Command({ Bucket: other })))).toBe('404 NoSuchBucket');
    expect(await refusal(s3.send(new PutObjectCommand({ Bucket: 'space', Key: 'a', Body: 'b' })))).toBe(
      '404 NoSuchBucket',
    );
  });
});

describe('names', () => {
  test.each([
    'plain',
    'a/b/c',
    'with space',
    'ä/ö',
    '日本/語.txt',
    '😀',
    'q\'uo"te',
    '<&>',
    'a+b',
    '100%',
    'a?b#c',
    '(a)*!',
    'a:b@c=d,e;f$',
    '~tilde_under-dash.dot',
    'x'.repeat(200),
    `${'d/'.repeat(100)}deep`,
    '...',
    '.hidden',
    'c/0000',
  ])('%j is stored, listed, read, copied and deleted', async (name) => {
    const Key = `names/${name}`;
    await put(Key, name);
    expect(await text(Key)).toBe(name);
    expect((await s3.send(new HeadObjectCommand({ Bucket, Key }))).ContentLength).toBe(
      Buffer.byteLength(name),
    );
    const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: Key }));
    expect(Contents?.map((one) => one.Key)).toEqual([Key]);
    const encoded = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: Key, EncodingType: 'url' }));
    expect(encoded.Contents?.map((one) => decodeURIComponent(one.Key ?? ''))).toEqual([Key]);
    const CopySource = `${Bucket}/${Key.split('/').map(encodeURIComponent).join('/')}`;
    await s3.send(new CopyObjectCommand({ Bucket, Key: `${Key}.copy`, CopySource }));
    expect(await text(`${Key}.copy`)).toBe(name);
    await s3.send(
      new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key }, { Key: `${Key}.copy` }] } }),
    );
    expect(await refusal(s3.send(new HeadObjectCommand({ Bucket, Key })))).toBe('404 NotFound');
  });

  test.each(['a//b', 'a\\b', 'a/./b', 'a\u0001b', 'a%2Fb', 'x'.repeat(901)])('%j is refused', async (Key) => {
    expect(await refusal(put(Key, 'x'))).toMatch(/^400 InvalidArgument|^403|^404/);
  });

  test('that end in a slash are nowhere to be read, and cannot be stored', async () => {
    expect(await refusal(s3.send(new HeadObjectCommand({ Bucket, Key: 'dir/' })))).toBe('404 NotFound');
    expect(await refusal(s3.send(new GetObjectCommand({ Bucket, Key: 'dir/' })))).toBe('404 NoSuchKey');
    expect(await refusal(put('dir/', ''))).toBe('400 InvalidArgument');
  });
});

describe('bodies', () => {
  test.each([0, 1, 1023, 64 * 1024, MIB + 1, 6 * MIB])('of %d bytes come back as they were', async (size) => {
    const body = randomBytes(size);
    const { ETag } = await put('size', body);
    const got = await s3.send(new GetObjectCommand({ Bucket, Key: 'size' }));
    expect(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(body)).toBe(true);
    expect([got.ContentLength, got.ETag]).toEqual([size, ETag]);
    expect(ETag).toBe(`"${createHash('md5').update(body).digest('hex')}"`);
  });

  test.each([
    ChecksumAlgorithm.CRC32,
    ChecksumAlgorithm.CRC32C,
    ChecksumAlgorithm.CRC64NVME,
    ChecksumAlgorithm.SHA1,
    ChecksumAlgorithm.SHA256,
  ])('are verified by %s, in a header and in a trailer', async (algorithm) => {
    const body = randomBytes(70_000);
    await put('sum', body, { ChecksumAlgorithm: algorithm });
    const stream = new Upload({
      client: s3,
      params: { Bucket, Key: 'sum-stream', Body: Readable.from([body]), ChecksumAlgorithm: algorithm },
    });
    await stream.done();
    await s3.send(
      new PutObjectCommand({
        Bucket,
        Key: 'sum-trailer',
        Body: Readable.from([body.subarray(0, 10), body.subarray(10)]),
        ContentLength: body.length,
        ChecksumAlgorithm: algorithm,
      }),
    );
    for (const Key of ['sum', 'sum-stream', 'sum-trailer'])
      expect((await s3.send(new HeadObjectCommand({ Bucket, Key }))).ContentLength).toBe(body.length);
  });

  test.each([
    'ChecksumCRC32',
    'ChecksumCRC32C',
    'ChecksumSHA1',
    'ChecksumSHA256',
    'ChecksumCRC64NVME',
    'ContentMD5',
  ])('with a wrong %s are not stored', async (name) => {
    await put('right', 'right');
    const wrong = { ChecksumCRC64NVME: 'AAAAAAAAAAA=' }[name] ?? 'AAAAAA==';
    expect(await refusal(put('right', 'wrong', { [name]: wrong }))).toMatch(/^400 (BadDigest|InvalidDigest)/);
    expect(await text('right')).toBe('right');
  });

  test('keep their headers and metadata', async () => {
    const about = {
      ContentType: 'text/csv',
      CacheControl: 'no-cache',
      ContentDisposition: 'attachment; filename="a.csv"',
      ContentLanguage: 'de',
      ContentEncoding: 'gzip',
      Metadata: { colour: 'blue', 'with-dash': 'x y' },
    };
    await put('about', 'x', about);
    expect(await s3.send(new HeadObjectCommand({ Bucket, Key: 'about' }))).toMatchObject(about);
  });
});

describe('ranges', () => {
  test.each([
    ['bytes=0-0', '0', 'bytes 0-0/10'],
    ['bytes=2-5', '2345', 'bytes 2-5/10'],
    ['bytes=7-', '789', 'bytes 7-9/10'],
    ['bytes=-2', '89', 'bytes 8-9/10'],
    ['bytes=5-100', '56789', 'bytes 5-9/10'],
  ])('%s is %j', async (Range, expected, header) => {
    await put('range', '0123456789');
    const got = await s3.send(new GetObjectCommand({ Bucket, Key: 'range', Range }));
    expect([await got.Body?.transformToString(), got.ContentRange]).toEqual([expected, header]);
  });

  test('beyond the end are refused', async () => {
    await put('range', '0123456789');
    expect(await refusal(text('range', { Range: 'bytes=10-12' }))).toBe('416 InvalidRange');
  });
});

describe('conditions', () => {
  const past = new Date('2020-01-01');
  const future = new Date(Date.now() - 1_000);

  test('of a read', async () => {
    const { ETag } = await put('cond', 'x');
    expect(await text('cond', { IfMatch: ETag })).toBe('x');
    expect(await refusal(text('cond', { IfMatch: '"other"' }))).toBe('412 PreconditionFailed');
    expect(await refusal(text('cond', { IfNoneMatch: ETag }))).toMatch(/^304/);
    expect(await text('cond', { IfNoneMatch: '"other"' })).toBe('x');
    expect(await text('cond', { IfModifiedSince: past })).toBe('x');
    expect(await refusal(text('cond', { IfUnmodifiedSince: past }))).toBe('412 PreconditionFailed');
    const head = new HeadObjectCommand({ Bucket, Key: 'cond', IfMatch: '"other"' });
    expect(await refusal(s3.send(head))).toMatch(/^412/);
    expect(future.getTime()).toBeGreaterThan(past.getTime());
  });

  test('of a write', async () => {
    const Key = `new-${randomBytes(4).toString('hex')}`;
    const { ETag } = await put(Key, 'a', { IfNoneMatch: '*' });
    expect(await refusal(put(Key, 'b', { IfNoneMatch: '*' }))).toBe('412 PreconditionFailed');
    expect(await refusal(put(Key, 'b', { IfMatch: '"other"' }))).toBe('412 PreconditionFailed');
    await put(Key, 'b', { IfMatch: ETag });
    expect(await text(Key)).toBe('b');
  });

  test('of a delete', async () => {
    const { ETag } = await put('del', 'x');
    const stale = new DeleteObjectCommand({ Bucket, Key: 'del', IfMatch: '"other"' });
    expect(await refusal(s3.send(stale))).toBe('412 PreconditionFailed');
    await s3.send(new DeleteObjectCommand({ Bucket, Key: 'del', IfMatch: ETag }));
    expect(await refusal(text('del'))).toBe('404 NoSuchKey');
    await s3.send(new DeleteObjectCommand({ Bucket, Key: 'del' }));
  });

  test('of a copy', async () => {
    const { ETag } = await put('source', 'x');
    const copy = (more: object) =>
      s3.send(new CopyObjectCommand({ Bucket, Key: 'target', CopySource: 'data/source', ...more }));
    await copy({ CopySourceIfMatch: ETag });
    expect(await refusal(copy({ CopySourceIfMatch: '"other"' }))).toBe('412 PreconditionFailed');
    expect(await refusal(copy({ CopySourceIfNoneMatch: ETag }))).toBe('412 PreconditionFailed');
    expect(await refusal(copy({ CopySourceIfUnmodifiedSince: past }))).toBe('412 PreconditionFailed');
    await copy({ CopySourceIfModifiedSince: past });
  });
});

describe('copies', () => {
  test('keep the metadata, or replace it, also in place', async () => {
    await put('meta', 'x', { Metadata: { a: '1' }, ContentType: 'text/plain' });
    await s3.send(new CopyObjectCommand({ Bucket, Key: 'meta2', CopySource: '/data/meta' }));
    expect(await s3.send(new HeadObjectCommand({ Bucket, Key: 'meta2' }))).toMatchObject({
      Metadata: { a: '1' },
      ContentType: 'text/plain',
    });
    const replaced = { MetadataDirective: 'REPLACE', Metadata: { b: '2' }, ContentType: 'text/css' } as const;
    await s3.send(new CopyObjectCommand({ Bucket, Key: 'meta', CopySource: 'data/meta', ...replaced }));
    const head = await s3.send(new HeadObjectCommand({ Bucket, Key: 'meta' }));
    expect([head.Metadata, head.ContentType]).toEqual([{ b: '2' }, 'text/css']);
  });

  test('go between the two buckets', async () => {
    await put('both', 'x');
    await s3.send(new CopyObjectCommand({ Bucket: 'shared', Key: 'both', CopySource: 'data/both' }));
    const { Body } = await neighbour.send(new GetObjectCommand({ Bucket: 'shared', Key: 'both' }));
    expect(await Body?.transformToString()).toBe('x');
  });

  test('of nothing, of another bucket, and of a key that is none are refused', async () => {
    const copy = (CopySource: string) => s3.send(new CopyObjectCommand({ Bucket, Key: 'x', CopySource }));
    expect(await refusal(copy('data/never'))).toBe('404 NoSuchKey');
    expect(await refusal(copy('space/a'))).toBe('404 NoSuchBucket');
    expect(await refusal(copy('data/../shared/both'))).toBe('400 InvalidArgument');
    expect(await refusal(copy('data%2Fboth'))).toMatch(/^40[04]/);
  });
});

describe('lists', () => {
  const keys = ['l/a', 'l/b/1', 'l/b/2', 'l/c/d/e', 'l/f', 'l/g'];
  beforeAll(async () => {
    for (const key of keys) await put(key, key);
    await put('l2', 'beside');
  });

  test.each([1, 2, 3, 1000])('come in pages of %d', async (MaxKeys) => {
    const seen: string[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await s3.send(
        new ListObjectsV2Command({ Bucket, Prefix: 'l/', MaxKeys, ContinuationToken }),
      );
      seen.push(...(page.Contents ?? []).map(({ Key = '' }) => Key));
      ContinuationToken = page.NextContinuationToken;
      expect(page.IsTruncated).toBe(ContinuationToken !== undefined);
    } while (ContinuationToken !== undefined);
    expect(seen).toEqual(keys);
  });

  test.each([1, 2, 1000])('roll up by delimiter, in pages of %d, in both versions', async (MaxKeys) => {
    const two: string[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await s3.send(
        new ListObjectsV2Command({ Bucket, Prefix: 'l/', Delimiter: '/', MaxKeys, ContinuationToken }),
      );
      two.push(...(page.Contents ?? []).map(({ Key = '' }) => Key));
      two.push(...(page.CommonPrefixes ?? []).map(({ Prefix = '' }) => Prefix));
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
    const one: string[] = [];
    let Marker: string | undefined;
    do {
      const page = await s3.send(
        new ListObjectsCommand({ Bucket, Prefix: 'l/', Delimiter: '/', MaxKeys, Marker }),
      );
      one.push(...(page.Contents ?? []).map(({ Key = '' }) => Key));
      one.push(...(page.CommonPrefixes ?? []).map(({ Prefix = '' }) => Prefix));
      Marker = page.IsTruncated === true ? page.NextMarker : undefined;
    } while (Marker !== undefined);
    const expected = ['l/a', 'l/b/', 'l/c/', 'l/f', 'l/g'];
    expect([two.sort(), one.sort()]).toEqual([expected, expected]);
  });

  test('begin after a key', async () => {
    const { Contents } = await s3.send(
      new ListObjectsV2Command({ Bucket, Prefix: 'l/', StartAfter: 'l/b/1' }),
    );
    expect(Contents?.map(({ Key }) => Key)).toEqual(['l/b/2', 'l/c/d/e', 'l/f', 'l/g']);
  });

  test('tell size, etag and time', async () => {
    const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'l/a' }));
    expect(Contents?.[0]).toMatchObject({
      Size: 3,
      ETag: `"${createHash('md5').update('l/a').digest('hex')}"`,
      LastModified: expect.any(Date),
    });
  });

  test('of none are empty, and tokens of others are refused', async () => {
    const none = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'never/' }));
    expect([none.KeyCount, none.Contents]).toEqual([0, undefined]);
    const page = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'l/', MaxKeys: 1 }));
    const token = page.NextContinuationToken;
    for (const who of [neighbour, stranger]) {
      const other = new ListObjectsV2Command({ Bucket, Prefix: 'l/', ContinuationToken: token });
      expect(await refusal(who.send(other))).toBe('400 InvalidArgument');
    }
    const moved = new ListObjectsV2Command({ Bucket, Prefix: 'l', ContinuationToken: token });
    expect(await refusal(s3.send(moved))).toBe('400 InvalidArgument');
  });
});

describe('deletions', () => {
  test('of many answer for each, and say nothing when asked to be quiet', async () => {
    await put('many/1', 'x');
    const Objects = [{ Key: 'many/1' }, { Key: 'many/never' }, { Key: 'many//bad' }];
    const loud = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    expect(loud.Deleted?.map(({ Key }) => Key)).toEqual(['many/1', 'many/never']);
    expect(loud.Errors).toMatchObject([{ Key: 'many//bad', Code: 'InvalidArgument' }]);
    const quiet = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }));
    expect(quiet.Deleted).toBeUndefined();
  });
});

describe('uploads in parts', () => {
  const begin = async (Key: string) =>
    (await s3.send(new CreateMultipartUploadCommand({ Bucket, Key, ContentType: 'a/b' }))).UploadId ?? '';
  const part = async (Key: string, UploadId: string, PartNumber: number, Body: Buffer) => {
    const { ETag } = await s3.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body }));
    return { ETag, PartNumber };
  };

  test('are listed, completed, and gone then', async () => {
    const Key = 'mpu/a';
    const UploadId = await begin(Key);
    const first = randomBytes(5 * MIB);
    const Parts = [await part(Key, UploadId, 1, first), await part(Key, UploadId, 3, Buffer.from('tail'))];
    const listed = await s3.send(new ListPartsCommand({ Bucket, Key, UploadId }));
    expect(listed.Parts?.map(({ PartNumber, Size }) => [PartNumber, Size])).toEqual([
      [1, 5 * MIB],
      [3, 4],
    ]);
    const uploads = await s3.send(new ListMultipartUploadsCommand({ Bucket, Prefix: 'mpu/' }));
    expect(uploads.Uploads).toMatchObject([{ Key, UploadId }]);
    expect((await neighbour.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads).toBeUndefined();
    const complete = new CompleteMultipartUploadCommand({
      Bucket,
      Key,
      UploadId,
      MultipartUpload: { Parts },
    });
    expect(await refusal(neighbour.send(complete))).toMatch(/^404/);
    expect(await refusal(stranger.send(complete))).toMatch(/^404/);
    expect((await s3.send(complete)).ETag).toMatch(/-2"$/);
    const head = await s3.send(new HeadObjectCommand({ Bucket, Key }));
    expect([head.ContentLength, head.ContentType]).toEqual([5 * MIB + 4, 'a/b']);
    expect(
      (await s3.send(new ListMultipartUploadsCommand({ Bucket, Prefix: 'mpu/' }))).Uploads,
    ).toBeUndefined();
  });

  test('belong to one key', async () => {
    const UploadId = await begin('mpu/b');
    expect(await refusal(part('mpu/other', UploadId, 1, Buffer.from('x')))).toMatch(/^404/);
    const abort = (Key: string) => s3.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
    expect(await refusal(abort('mpu/other'))).toMatch(/^404/);
    await abort('mpu/b');
    expect(await refusal(part('mpu/b', UploadId, 1, Buffer.from('x')))).toMatch(/^404/);
  });

  test('refuse parts that are too small, unknown, out of order, or out of bounds', async () => {
    const Key = 'mpu/c';
    const UploadId = await begin(Key);
    const small = [
      await part(Key, UploadId, 1, Buffer.from('a')),
      await part(Key, UploadId, 2, Buffer.from('b')),
    ];
    const complete = (Parts: readonly { ETag: string | undefined; PartNumber: number }[]) =>
      s3.send(
        new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts: [...Parts] } }),
      );
    expect(await refusal(complete(small))).toBe('400 EntityTooSmall');
    expect(await refusal(complete([{ ETag: '"x"', PartNumber: 1 }]))).toBe('400 InvalidPart');
    expect(await refusal(complete(small.toReversed()))).toMatch(/^400 InvalidPartOrder/);
    expect(await refusal(complete([]))).toMatch(/^400/);
    for (const number of [0, 10_001])
      expect(await refusal(part(Key, UploadId, number, Buffer.from('x')))).toMatch(/^400/);
  });

  test('take parts of other objects', async () => {
    const source = randomBytes(6 * MIB);
    await put('mpu/source', source);
    const Key = 'mpu/copied';
    const UploadId = await begin(Key);
    const copy = async (PartNumber: number, CopySourceRange?: string) => {
      const command = { Bucket, Key, UploadId, PartNumber, CopySource: 'data/mpu/source', CopySourceRange };
      const { CopyPartResult } = await s3.send(new UploadPartCopyCommand(command));
      return { ETag: CopyPartResult?.ETag, PartNumber };
    };
    const Parts = [await copy(1), await copy(2, 'bytes=0-9')];
    await s3.send(new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts } }));
    const got = await s3.send(new GetObjectCommand({ Bucket, Key, Range: `bytes=${6 * MIB - 1}-` }));
    const expected = Buffer.concat([source.subarray(-1), source.subarray(0, 10)]);
    expect(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(expected)).toBe(true);
  });

  test('are what the SDK makes of a stream of unknown length', async () => {
    const body = randomBytes(12 * MIB);
    const params = {
      Bucket,
      Key: 'mpu/stream',
      Body: Readable.from([body.subarray(0, 7), body.subarray(7)]),
    };
    await new Upload({ client: s3, params, partSize: 5 * MIB, queueSize: 2 }).done();
    const got = await s3.send(new GetObjectCommand({ Bucket, Key: 'mpu/stream' }));
    expect(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(body)).toBe(true);
  });
});

describe('what is not offered by design', () => {
  test.each([
    ['ACLs', () => s3.send(new GetObjectAclCommand({ Bucket, Key: 'l/a' }))],
    ['setting ACLs', () => s3.send(new PutObjectAclCommand({ Bucket, Key: 'l/a', ACL: 'private' }))],
    ['tags', () => s3.send(new GetObjectTaggingCommand({ Bucket, Key: 'l/a' }))],
    ['versions', () => s3.send(new ListObjectVersionsCommand({ Bucket }))],
    ['one version', () => text('l/a', { VersionId: 'x' })],
    ['policies', () => s3.send(new PutBucketPolicyCommand({ Bucket, Policy: '{}' }))],
    ['public objects', () => put('x', 'x', { ACL: 'public-read' })],
    ['storage classes', () => put('x', 'x', { StorageClass: 'GLACIER' })],
    ['encryption by key', () => put('x', 'x', { ServerSideEncryption: 'aws:kms' })],
    ['locks', () => put('x', 'x', { ObjectLockMode: 'GOVERNANCE', ObjectLockRetainUntilDate: new Date() })],
    ['tags on writing', () => put('x', 'x', { Tagging: 'a=b' })],
    ['redirects', () => put('x', 'x', { WebsiteRedirectLocation: '/y' })],
    ['other delimiters', () => s3.send(new ListObjectsV2Command({ Bucket, Delimiter: '-' }))],
    ['headers of answers by query', () => text('l/a', { ResponseContentType: 'text/html' })],
  ])('%s', async (_what, act) => {
    expect(await refusal(act())).toMatch(/^501 NotImplemented/);
  });
});

describe('a signature', () => {
  test('of a wrong key, an unknown one, or another region than it says is refused alike', async () => {
    const { json } = await mine.call('GET', '/v1/s3/credentials');
    const good = { accessKeyId: json.AccessKeyId, secretAccessKey: json.SecretAccessKey };
    for (const credentials of [
      { ...good, secretAccessKey: `${good.secretAccessKey.slice(0, -1)}_` },
      { ...good, accessKeyId: `SPCK${'0'.repeat(32)}` },
      { ...good, accessKeyId: 'AKIAIOSFODNN7EXAMPLE' },
      { ...good, sessionToken: 'x' },
    ]) {
      const client = await clientOf(mine, { credentials });
      expect(await refusal(client.send(new ListBucketsCommand({})))).toMatch(/^403 AccessDenied|^501/);
    }
    for (const region of ['us-east-1', 'eu-west-3', 'auto', 'space'])
      expect(await refusal((await clientOf(mine, { region })).send(new ListBucketsCommand({})))).toBe('ok');
  });

  test('of another time is refused', async () => {
    for (const minutes of [-16, 16]) {
      const client = await clientOf(mine, { systemClockOffset: minutes * 60_000 });
      expect(await refusal(client.send(new ListBucketsCommand({})))).toMatch(/^403/);
    }
    const client = await clientOf(mine, { systemClockOffset: 10 * 60_000 });
    expect(await refusal(client.send(new ListBucketsCommand({})))).toBe('ok');
  });

  test('of a retired principal is refused', async () => {
    const { broker } = stage;
    const capsule = await broker.capsule('leaving');
    const client = await clientOf(
      assistant(broker.dataUrl, await broker.workload(capsule, 'leaving', 'app')),
    );
    expect(await refusal(client.send(new ListBucketsCommand({})))).toBe('ok');
    await capsule.drop('leaving', 'app');
    expect(await refusal(client.send(new ListBucketsCommand({})))).toBe('403 AccessDenied');
  });

  test('covers what is sent', async () => {
    const client = await clientOf(mine);
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
  writeFileSync(file, mine.token);
  const environment = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${stage.broker.dataUrl}/v1/s3/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    AWS_CONFIG_FILE: join(directory, 'none'),
    AWS_SHARED_CREDENTIALS_FILE: join(directory, 'none'),
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  try {
    const client = new S3Client({
      endpoint: stage.broker.dataUrl,
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

test('both ways see the same objects', async () => {
  await put('same', 'from s3', { Metadata: { a: 'b' } });
  const read = await mine.get('same');
  expect([read.text, read.headers.get('x-object-meta-a')]).toEqual(['from s3', 'b']);
  await mine.put('same', 'from json');
  expect(await text('same')).toBe('from json');
});
