import { spawnSync } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { portOf, Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createS3Client } from '../upstream/client.ts';
import { S3Error } from '../upstream/errors.ts';
import { createPool } from '../upstream/managed.ts';
import type { S3Client } from '../upstream/types.ts';
import { copy } from './copy.ts';
import { reading } from './reading.ts';
import { restore } from './restore.ts';
import { several } from './several.ts';
import { everything, keysOf, PREFIX, random, runOf, type Servers, startServers } from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const forever = new AbortController().signal;

/** The same client; the first time that anything is asked of it, the answer is this failure. */
function failingOnce(s3: S3Client, failure: () => Error): S3Client {
  const asked = new Set<string>();
  return new Proxy(s3, {
    get: (client, name) => {
      const method: unknown = Reflect.get(client, name);
      if (typeof method !== 'function') return method;
      return async (...args: unknown[]) => {
        const what = `${String(name)} ${typeof args[0] === 'string' ? args[0] : ''}`;
        if (!asked.has(what)) {
          asked.add(what);
          throw failure();
        }
        return Reflect.apply(method, client, args);
      };
    },
  });
}

describe('a server that fails', () => {
  test.each([
    ['that it is busy', () => new S3Error('answered', 503, 'SlowDown')],
    ['nothing', () => new S3Error('unreachable', 0, 'ECONNRESET')],
    ['nothing in time', () => new S3Error('timeout', 0, 'UND_ERR_HEADERS_TIMEOUT')],
  ])('with %s is retried, and backup and restore are complete', async (_, failure) => {
    const [from, to, target] = [servers.bucket().s3, servers.bucket().s3, servers.bucket().s3];
    for (const name of ['a', 'b']) await from.put(name, random(100_000));
    await from.put('large', random(17 * 1024 * 1024));
    const failing = (s3: S3Client) => failingOnce(s3, failure);
    await copy(await runOf(servers, failing(from), failing(to)));
    await restore(await runOf(servers, failing(target), failing(to)), { at: undefined, makesBucket: false });
    expect(await everything(target)).toEqual(await everything(from));
  });

  test('with a refusal is not retried, and no point is written', async () => {
    const [from, to] = [servers.bucket().s3, servers.bucket().s3];
    await from.put('a', random(100));
    let asked = 0;
    const refusing: S3Client = {
      ...from,
      get: async () => {
        asked += 1;
        throw new S3Error('answered', 403, 'AccessDenied');
      },
    };
    await expect(copy(await runOf(servers, refusing, to))).rejects.toThrow(/403 AccessDenied/);
    expect(asked).toBe(1);
    expect(await keysOf(to, PREFIX)).toEqual([]);
  });
});

test('a run that is told to stop writes no point', async () => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  for (const name of ['a', 'b', 'c']) await from.put(name, random(100));
  const stop = new AbortController();
  const stopping: S3Client = {
    ...from,
    get: (...args) => {
      stop.abort();
      return from.get(...args);
    },
  };
  const run = await runOf(servers, stopping, to, { signal: stop.signal, atOnce: 1 });
  await expect(copy(run)).rejects.toThrow(/abort/);
  expect(await keysOf(to)).toEqual([]);
});

describe('reading an object', () => {
  let half: Server;
  let client: S3Client;
  beforeAll(async () => {
    half = createServer((_, response) => {
      response.writeHead(200, { 'content-length': '1000000', etag: '"x"' });
      response.write(Buffer.alloc(500_000), () => response.destroy());
    });
    await new Promise<void>((resolve) => half.listen(0, '127.0.0.1', resolve));
    const target = {
      origin: `http://127.0.0.1:${portOf(half)}`,
      region: 'us-east-1',
      bucket: 'space',
      addressing: 'path',
      accessKeyId: new Secret('id'),
      secretAccessKey: new Secret('secret'),
    } as const;
    client = createS3Client(target, createPool(target, { connections: 2 }));
  });
  afterAll(() => half?.close());

  test('that is interrupted is a failure of the server, whatever its reader does', async () => {
    const read = reading(client, 'key', { signal: forever }, async (_, body) => {
      try {
        for await (const piece of body) void piece;
      } catch (error) {
        throw new Error('damaged', { cause: error });
      }
    });
    await expect(read).rejects.toMatchObject({ name: 'S3Error', kind: 'unreachable' });
  });

  test('ends when its reader stops, or throws what its reader throws', async () => {
    const { s3 } = servers.bucket();
    await s3.put('key', random(3_000_000));
    const first = (error?: Error) =>
      reading(s3, 'key', { signal: forever }, async (_, body) => {
        for await (const piece of body) {
          if (error !== undefined) throw error;
          return piece.length > 0;
        }
        return false;
      });
    expect(await first()).toBe(true);
    await expect(first(new Error('enough'))).rejects.toThrow('enough');
    await expect(reading(s3, 'none', { signal: forever }, async () => 'never')).rejects.toMatchObject({
      status: 404,
    });
  });
});

test('a limited number of tasks runs at one time, and the first failure is thrown when all others have ended', async () => {
  let [now, most, done] = [0, 0, 0];
  const act = async (n: number, signal: AbortSignal) => {
    now += 1;
    most = Math.max(most, now);
    await Promise.resolve();
    now -= 1;
    if (n === 5) throw new Error('five');
    signal.throwIfAborted();
    done += 1;
  };
  await expect(several([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, forever, act)).rejects.toThrow('five');
  expect(most).toBe(3);
  expect(now).toBe(0);
  expect(done).toBeLessThan(8);
});

test('the program ends with 1 and one sentence', () => {
  const program = join(import.meta.dirname, '../backup.ts');
  const start = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
      env: {},
      encoding: 'utf8',
    });
    return { status, stdout, lines: stderr.trim().split('\n') };
  };
  expect(start()).toEqual({ status: 1, stdout: '', lines: [expect.stringMatching(/^usage: /)] });
  expect(start('list')).toEqual({
    status: 1,
    stdout: '',
    lines: [expect.stringMatching(/^bad configuration: SPACE_NAME: .*BACKUP_S3_ENDPOINT/)],
  });
});
