import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { Decrypter } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';
import { writeHeadLast } from './head-last.ts';
import { createSealer, type Sealer } from './sealer.ts';
import { keysOf, type Servers, startServers, steps } from './testing/buckets.ts';

const PART = 8 * 1024 * 1024;
const HEAD = Buffer.from('0123456789');
const signal = new AbortController().signal;

let servers: Servers;
let sealer: Sealer;
beforeAll(async () => {
  servers = await startServers();
  sealer = await createSealer(servers.identity);
});
afterAll(() => servers?.close());

/** Bytes that differ from place to place, in pieces of an odd length. */
async function* bytes(length: number): AsyncGenerator<Uint8Array> {
  const all = Buffer.alloc(length);
  for (let at = 0; at + 4 <= length; at += 4) all.writeUInt32LE(at, at);
  for (let at = 0; at < length; at += 1_000_003) yield all.subarray(at, at + 1_000_003);
}

const digest = (some: readonly Uint8Array[]) => {
  const hash = createHash('sha256');
  for (const one of some) hash.update(one);
  return hash.digest('hex');
};

function write(s3: S3Client, length: number, more: Partial<Parameters<typeof writeHeadLast>[2]> = {}) {
  return writeHeadLast({ s3, clock: steps(), signal }, sealer, {
    key: 'it',
    headBytes: HEAD.length,
    rest: bytes(length - HEAD.length),
    head: async () => HEAD,
    records: 'completions/',
    ...more,
  });
}

const failing = (s3: S3Client, method: keyof S3Client, shouldFail: (call: number) => boolean): S3Client => {
  let calls = 0;
  return new Proxy(s3, {
    get: (client, name) => {
      const found: unknown = Reflect.get(client, name);
      if (name !== method || typeof found !== 'function') return found;
      return async (...args: unknown[]) => {
        calls += 1;
        if (shouldFail(calls)) throw new S3Error('answered', 503, 'SlowDown');
        return Reflect.apply(found, client, args);
      };
    },
  });
};

test.each([HEAD.length, HEAD.length + 1, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 1, 3 * PART - 1])(
  'age opens what is written, head and all: %i bytes',
  async (length) => {
    const { s3 } = servers.bucket();
    await write(s3, length);
    const { body } = await s3.read('it', 4 * PART);
    expect(body.length).toBe(sealer.sealedLength(length));
    const decrypter = new Decrypter();
    decrypter.addIdentity(servers.identity);
    const wanted = [HEAD, ...(await Array.fromAsync(bytes(length - HEAD.length)))];
    expect(digest([await decrypter.decrypt(body)])).toBe(digest(wanted));
  },
);

test('a part that is refused for a while is sent again, with the same bytes', async () => {
  const { s3 } = servers.bucket();
  let heads = 0;
  const head = async () => {
    heads += 1;
    return HEAD;
  };
  await write(
    failing(s3, 'putPart', (call) => call % 2 === 1),
    2 * PART + 1,
    { head },
  );
  const { body } = await s3.read('it', 4 * PART);
  const opened = await sealer.open(Readable.from([body]));
  expect(digest(await Array.fromAsync(opened))).toBe(
    digest([HEAD, ...(await Array.fromAsync(bytes(2 * PART + 1 - HEAD.length)))]),
  );
  expect(heads).toBe(1);
});

describe('an upload that a server completes, and then does not know', () => {
  /** A server whose first answer to a completion is lost; `complete` says whether it was done. */
  const losing = (s3: S3Client, complete: boolean): S3Client => {
    let calls = 0;
    return {
      ...s3,
      completeUpload: async (...args) => {
        calls += 1;
        if (calls > 1) throw new S3Error('answered', 404, 'NoSuchUpload');
        if (complete) await s3.completeUpload(...args);
        throw new S3Error('timeout', 0, 'UND_ERR_HEADERS_TIMEOUT');
      },
    };
  };

  test('is written although the answer was lost', async () => {
    const { s3 } = servers.bucket();
    await write(losing(s3, true), 2 * PART + 1);
    const { body } = await s3.read('it', 4 * PART);
    expect(body.length).toBe(sealer.sealedLength(2 * PART + 1));
  });

  test('is not written if it was lost itself, whatever the key has', async () => {
    const { s3 } = servers.bucket();
    await expect(write(losing(s3, false), 2 * PART + 1)).rejects.toMatchObject({ code: 'NoSuchUpload' });
    expect(await keysOf(s3)).toEqual([]);
    // An object of the same length, of another upload.
    await write(s3, 2 * PART + 1);
    await expect(write(losing(s3, false), 2 * PART + 1)).rejects.toMatchObject({ code: 'NoSuchUpload' });
  });
});

test.each([
  ['the server refuses the last part', { server: true }],
  ['what is written fails', { rest: true }],
  ['the head fails', { head: true }],
] as const)('nothing is left if %s', async (_, wrong: { server?: true; rest?: true; head?: true }) => {
  const { s3 } = servers.bucket();
  async function* broken() {
    yield* bytes(2 * PART);
    throw new Error('wrong');
  }
  const to = wrong.server === undefined ? s3 : failing(s3, 'putPart', (call) => call > 1);
  const fails = async () => {
    throw new Error('wrong');
  };
  const more = { ...(wrong.rest && { rest: broken() }), ...(wrong.head && { head: fails }) };
  await expect(write(to, 2 * PART + 1, more)).rejects.toThrow();
  expect(await keysOf(s3)).toEqual([]);
  expect((await s3.listUploads({ prefix: '', limit: 10 })).uploads).toEqual([]);
});
