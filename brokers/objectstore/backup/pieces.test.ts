import { afterAll, beforeAll, expect, test } from 'vitest';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';
import { BackupError } from './errors.ts';
import { listed, pieces } from './pieces.ts';
import { random, type Servers, startServers, steps } from './testing/buckets.ts';

const KIB = 1024;
const FIRST = 128 * KIB;
const PIECE = 4 * KIB * KIB;
const signal = new AbortController().signal;

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const source = (s3: Pick<S3Client, 'list' | 'read'>) => ({ s3, clock: steps(), signal });
const unreachable = () => new S3Error('unreachable', 0, 'Unknown');

test.each([0, 1, FIRST - 1, FIRST, FIRST + 1, FIRST + PIECE, FIRST + PIECE + 1])(
  'an object of %i bytes is read in pieces, each again after a broken connection',
  async (length) => {
    const { s3 } = servers.bucket();
    const bytes = random(length);
    await s3.put('it', bytes);
    let calls = 0;
    const read: S3Client['read'] = async (...args) => {
      calls += 1;
      if (calls % 2 === 1) throw unreachable();
      return s3.read(...args);
    };
    const found = await Array.fromAsync(pieces(source({ ...s3, read }), 'it'));
    expect(Buffer.concat(found).equals(bytes)).toBe(true);
    for (const piece of found) expect(piece.length).toBeLessThanOrEqual(PIECE);
  },
);

test('an object that is exchanged between two pieces is not taken for one', async () => {
  const { s3 } = servers.bucket();
  await s3.put('it', random(FIRST + PIECE));
  const reader = pieces(source(s3), 'it');
  await reader.next();
  await s3.put('it', random(FIRST + PIECE));
  await expect(reader.next()).rejects.toMatchObject({ status: 412 });
});

test('a server that ignores ranges is told of, and its bytes are not taken for the rest', async () => {
  const { s3 } = servers.bucket();
  await s3.put('it', random(FIRST + 10));
  const read: S3Client['read'] = async (key, limit) => s3.read(key, Math.max(limit, FIRST + 10));
  const reader = pieces(source({ ...s3, read }), 'it');
  expect((await reader.next()).value).toHaveLength(FIRST + 10);
  expect((await reader.next()).done).toBe(true);
  const wrong: S3Client['read'] = async (key, limit, options) => {
    const answer = await s3.read(key, limit, options);
    return { ...answer, headers: { ...answer.headers, 'content-range': `bytes 0-9/${FIRST + 10}` } };
  };
  const other = pieces(source({ ...s3, read: wrong }), 'it');
  await other.next();
  await expect(other.next()).rejects.toThrow(BackupError);
});

test('a page of a list is requested again, and no object is listed twice', async () => {
  const { s3 } = servers.bucket();
  const keys = Array.from({ length: 1_100 }, (_, n) => `o/${String(n).padStart(4, '0')}`);
  await Promise.all(keys.map((key) => s3.put(key, Buffer.from('x'))));
  let calls = 0;
  const list: S3Client['list'] = async (...args) => {
    calls += 1;
    if (calls % 2 === 1) throw unreachable();
    return s3.list(...args);
  };
  const found = await Array.fromAsync(listed(source({ ...s3, list }), 'o/'), ({ key }) => key);
  expect(found).toEqual(keys);
  expect(calls).toBe(4);
});

test('a list may begin behind all keys with a prefix', async () => {
  const { s3 } = servers.bucket();
  for (const key of ['c/1/a/x/1', 'c/1/s/1', 'c/1/s/2/3', 'c/2/s/1', 'd'])
    await s3.put(key, Buffer.from('x'));
  const after = (key: string) => Array.fromAsync(listed(source(s3), '', key), (one) => one.key);
  expect(await after('c/1/a/x0')).toEqual(['c/1/s/1', 'c/1/s/2/3', 'c/2/s/1', 'd']);
  expect(await after('c/1/s0')).toEqual(['c/2/s/1', 'd']);
  expect(await after('c/2/s0')).toEqual(['d']);
});
