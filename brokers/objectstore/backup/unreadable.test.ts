import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBetween } from '../testing/between.ts';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';
import { copy } from './copy.ts';
import { INCOMPLETE } from './errors.ts';
import { restore } from './restore.ts';
import {
  command,
  everything,
  keysOf,
  PREFIX,
  random,
  runOf,
  type Servers,
  startServers,
} from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const damaged = () => new S3Error('answered', 500, 'InternalError');
const notFound = () => new S3Error('answered', 404, 'NoSuchKey');
const cutOff = () => new S3Error('unreachable', 0, 'UND_ERR_SOCKET');

/** A server that returns all objects but some, as over a damaged disk. */
const without = (
  s3: S3Client,
  isLost: (key: string) => boolean,
  failure: () => Error = damaged,
): S3Client & { asked: number } => {
  const client = {
    ...s3,
    asked: 0,
    get: async (...args: Parameters<S3Client['get']>) => {
      if (!isLost(args[0])) return s3.get(...args);
      client.asked += 1;
      throw failure();
    },
  };
  return client;
};

async function restored(to: S3Client) {
  const target = servers.bucket().s3;
  await restore(await runOf(servers, target, to), { at: undefined, makesBucket: false });
  return everything(target);
}

test.each([
  ['answers with an error', damaged],
  ['answers that there is none, although it lists it', notFound],
  ['breaks the connection', cutOff],
])(
  'an object for which the server %s keeps no other out of the backup, and stays in it as it was',
  async (_, failure) => {
    const [from, to] = [servers.bucket().s3, servers.bucket().s3];
    for (const key of ['a', 'b', 'z']) await from.put(key, random(100));
    await copy(await runOf(servers, from, to));
    const before = await everything(from);
    for (const key of ['b', 'never', 'z']) await from.put(key, random(200));
    const bucket = without(from, (key) => key === 'b' || key === 'never', failure);
    const run = await runOf(servers, bucket, to);
    expect(await copy(run)).toMatchObject({
      objects: 3,
      copied: 1,
      unreadable: 2,
      unreadable_key: 'b',
      left_out: 1,
    });
    const { never: _never, ...now } = await everything(from);
    expect(await restored(to)).toEqual({ ...now, b: before['b'] });
    // When it is returned again, it is copied.
    const again = await copy(await runOf(servers, from, to, { clock: run.clock }));
    expect(again).toMatchObject({ objects: 4, unreadable: 0 });
    expect(again).not.toHaveProperty('unreadable_key');
    expect(await restored(to)).toEqual(await everything(from));
  },
);

test('a run with many unreadable objects ends, as it does not wait for each of them', async () => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (let n = 0; n < 60; n += 1) await from.put(`lost/${n}`, random(10));
  await from.put('there', random(10));
  const bucket = without(from, (key) => key.startsWith('lost/'));
  const run = await runOf(servers, bucket, to, { atOnce: 1 });
  expect(await copy(run)).toMatchObject({ objects: 1, unreadable: 60, left_out: 60 });
  // Five attempts and a look for each of the first twenty, and one of each for the others.
  expect(bucket.asked).toBe(20 * 6 + 40 * 2);
});

test('with many objects that the server lists and does not find, each of those after the first is asked for less often', async () => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (let n = 0; n < 60; n += 1) await from.put(`lost/${n}`, random(10));
  const bucket = without(from, (key) => key.startsWith('lost/'), notFound);
  const run = await runOf(servers, bucket, to, { atOnce: 1 });
  expect(await copy(run)).toMatchObject({ objects: 0, unreadable: 60, left_out: 60 });
  // Five attempts and one for whatever state there is for the first twenty, and one of each for the others.
  expect(bucket.asked).toBe(20 * 6 + 40 * 2);
});

/** Stores these bytes as if the server had lost what it knows of the object. */
function loseMetadata(bucket: string, key: string): void {
  const file = join(servers.s3.directory, bucket, key);
  rmSync(file);
  writeFileSync(file, random(300));
}

test('an object whose metadata are lost stays in each further point as it was, and the command says so', async () => {
  const [from, to] = [servers.bucket(), servers.bucket()];
  for (const key of ['a', 'b']) await from.s3.put(key, random(100));
  const before = await everything(from.s3);
  const copied = () => command(servers, { bucket: from.name, backup: to.name }, ['copy']);
  expect(await copied()).toMatchObject({ code: 0 });
  loseMetadata(from.name, 'b');
  for (let run = 0; run < 2; run += 1) {
    const { code, out, error } = await copied();
    expect({ code, error }).toEqual({
      code: INCOMPLETE,
      error: expect.stringMatching(/does not return 1 of its objects, b for one/),
    });
    expect(JSON.parse(out[0] ?? '')).toMatchObject({ objects: 2, left_out: 0, unreadable: 1 });
  }
  expect(await restored(to.s3)).toEqual(before);
});

test('an object that is deleted while it is copied is left out, whatever the server answered before', async () => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (const key of ['a', 'b', 'c']) await from.put(key, random(10));
  const get: S3Client['get'] = async (key, ...rest) => {
    if (key === 'a') return from.get(key, ...rest);
    await from.delete(key);
    throw key === 'b' ? notFound() : damaged();
  };
  const copied = await copy(await runOf(servers, { ...from, get }, to));
  expect(copied).toMatchObject({ objects: 1, left_out: 2, unreadable: 0 });
});

test.each([
  ['answers with an error', damaged, /500/],
  [
    'answers that there is none, although it lists it',
    notFound,
    /lists custody\/v1\/x, and does not return it/,
  ],
])('no point is made without an anchor of custody for which the server %s', async (_, failure, sentence) => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (const key of ['a', 'custody/v1/x']) await from.put(key, random(10));
  const run = await runOf(
    servers,
    without(from, (key) => key === 'custody/v1/x', failure),
    to,
  );
  await expect(copy(run)).rejects.toThrow(sentence);
  expect(await keysOf(to, `${PREFIX}/bucket/points/`)).toEqual([]);
});

test('no point is made without an anchor of custody whose metadata are lost', async () => {
  const [from, to] = [servers.bucket(), servers.bucket()];
  for (const key of ['a', 'custody/v1/x']) await from.s3.put(key, random(10));
  const copied = () => command(servers, { bucket: from.name, backup: to.name }, ['copy']);
  await copied();
  const there = await keysOf(to.s3);
  loseMetadata(from.name, 'custody/v1/x');
  expect(await copied()).toMatchObject({
    code: 1,
    out: [],
    error: expect.stringMatching(/lists custody\/v1\/x, and does not return it/),
  });
  expect(await keysOf(to.s3)).toEqual(there);
});

test.each([
  ['the bucket’s server is down', cutOff, true],
  ['its key may not read', () => new S3Error('answered', 403, 'AccessDenied'), false],
])('no point is made if %s', async (_, failure, isDown) => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (const key of ['a', 'b']) await from.put(key, random(10));
  const bucket = without(from, () => true, failure);
  let lists = 0;
  const list: S3Client['list'] = async (...args) => {
    lists += 1;
    if (isDown && lists > 1) throw failure();
    return from.list(...args);
  };
  await expect(copy(await runOf(servers, { ...bucket, list }, to))).rejects.toThrow(S3Error);
  expect(await keysOf(to, PREFIX)).toEqual([]);
});

test.each([
  [507, 'InsufficientStorage'],
  // Of the Space's bucket these would say that an object is gone, or another one.
  [404, 'Unknown'],
  [404, 'NoSuchUpload'],
  [412, 'PreconditionFailed'],
])('no point is made if the destination does not take a content (%d %s)', async (status, code) => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (const key of ['a', 'b']) await from.put(key, random(10));
  const refuse = async () => {
    throw new S3Error('answered', status, code);
  };
  const put: S3Client['put'] = (key, ...rest) =>
    key.startsWith(`${PREFIX}/bucket/objects/`) ? refuse() : to.put(key, ...rest);
  await expect(copy(await runOf(servers, from, { ...to, put }))).rejects.toMatchObject({ status, code });
  await from.put('large', random(17 * 1024 * 1024));
  const inParts = await runOf(servers, from, { ...to, putPart: refuse });
  await expect(copy(inParts)).rejects.toMatchObject({ status, code });
  expect(await keysOf(to, `${PREFIX}/bucket/points/`)).toEqual([]);
});

test('a refusal of the destination is told as its own', async () => {
  const [from, to] = [servers.bucket(), servers.bucket()];
  await from.s3.put('a', random(10));
  const between = await startBetween(servers.s3);
  between.fate = ({ method, url = '' }) =>
    method === 'PUT' && url.startsWith(`/${to.name}/${PREFIX}/bucket/objects/`)
      ? { status: 404, code: 'NoSuchUpload' }
      : 'pass';
  const buckets = { bucket: from.name, backup: to.name };
  const { code, error } = await command(servers, buckets, ['copy'], { BACKUP_S3_ENDPOINT: between.endpoint });
  await between.close();
  expect({ code, error }).toEqual({
    code: 1,
    error: expect.stringMatching(/^the backup's bucket: its server answers 404 NoSuchUpload: .* BACKUP_S3_/),
  });
});

test('the command makes the point and says which object it could not read', async () => {
  const [from, to] = [servers.bucket(), servers.bucket()];
  for (const key of ['a', 'b']) await from.s3.put(key, random(10));
  const between = await startBetween(servers.s3);
  between.fate = ({ method, url = '' }) =>
    method === 'GET' && url.startsWith(`/${from.name}/b`) ? { status: 500, code: 'InternalError' } : 'pass';
  const buckets = { bucket: from.name, backup: to.name };
  const { code, out, error } = await command(servers, buckets, ['copy', '--expire'], {
    S3_ENDPOINT: between.endpoint,
  });
  await between.close();
  // No other failure has this code, by which the Job is not repeated.
  expect(code).toBe(INCOMPLETE);
  expect(error).toMatch(
    /^the point \w+ was made, but the server .* does not return 1 of its objects, b for one/,
  );
  expect(out.map((line) => JSON.parse(line))).toMatchObject([
    { command: 'copy', objects: 1, unreadable: 1 },
    { command: 'expire', points: 0 },
  ]);
  expect(await keysOf(to.s3, `${PREFIX}/bucket/points/`)).toHaveLength(1);
});
