import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer as createHttps, type Server } from 'node:https';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addressGuard, dialler, portOf, Secret } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { makeAuthority } from '../../../../testing/certificates.ts';
import { eventually } from '../../../../testing/eventually.ts';
import { ALONE } from '../../testing/passing.ts';
import { createS3Client } from '../../upstream/client.ts';
import type { S3Client } from '../../upstream/types.ts';
import { createPools, type Pools, type PoolsOptions } from './pools.ts';

const target = {
  region: 'us-east-1',
  bucket: 'tenant',
  addressing: 'path' as const,
  accessKeyId: new Secret('canary-id'),
  secretAccessKey: new Secret('canary-secret'),
};

test('an endpoint whose name resolves to an internal address gets no connection', async () => {
  let connections = 0;
  const inside = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
  const addresses = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::ffff:7f00:1', '64:ff9b::7f00:1'];
  for (const address of addresses) {
    const guarded = dialler({ resolve: async () => [{ address, ttl: 60 }], guard: addressGuard({}) });
    const pools = createPools({ dialler: guarded, ca: undefined }, { most: 100, passingOf: () => ALONE });
    const origin = `https://s3.tenant.example:${portOf(inside)}`;
    const s3 = createS3Client({ ...target, origin }, pools.of({ capsule: 'home', setId: 'set', origin }));
    await expect(s3.put('key', Buffer.from('body'))).rejects.toMatchObject({
      name: 'S3Error',
      kind: 'unreachable',
      cause: { name: 'DialError', failure: 'denied' },
    });
    await pools.close();
  }
  expect(connections).toBe(0);
  inside.close();
});

describe('connections to Capsules’ own servers', () => {
  let directory: string;
  let ca: string;
  let server: Server;
  let answer: (response: ServerResponse) => void;
  let opened: number;
  const pools: Pools[] = [];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'space-pools-'));
    const authority = makeAuthority(directory, 'ca');
    ca = readFileSync(authority.cert, 'utf8');
    const { cert, key } = authority.sign('s3', ['DNS:s3.tenant.example']);
    server = createHttps({ cert: readFileSync(cert), key: readFileSync(key) }, (_request, response) =>
      answer(response),
    );
    // The server says so in each answer.
    server.keepAliveTimeout = 600_000;
    server.on('secureConnection', () => {
      opened += 1;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  beforeEach(() => {
    opened = 0;
    answer = (response) => void response.end('text');
  });
  afterEach(() => Promise.all(pools.splice(0).map((each) => each.close())));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
    rmSync(directory, { recursive: true });
  });

  /** The client of each set in pools with these limits. */
  function clients(options: Partial<PoolsOptions> = {}) {
    const resolve = async () => [{ address: '127.0.0.1', ttl: 60, trusted: true as const }];
    const reach = { dialler: dialler({ resolve, guard: addressGuard({}) }), ca };
    const mine = createPools(reach, { most: 100, passingOf: () => ALONE, ...options });
    pools.push(mine);
    const origin = `https://s3.tenant.example:${portOf(server)}`;
    return (capsule: string, setId: string) =>
      createS3Client({ ...target, origin }, mine.of({ capsule, setId, origin }));
  }
  const open = () =>
    new Promise<number>((resolve, reject) =>
      server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
    );
  const read = async (s3: S3Client) => expect((await s3.read('key', 100)).body.toString()).toBe('text');

  test('stay open after the time limit for opening them', async () => {
    answer = (response) => {
      response.write('te');
      setTimeout(() => response.end('xt'), 6_000);
    };
    await read(clients()('home', 'set'));
  });

  test('are shared only by requests of one set, and few sets have any', async () => {
    const of = clients({ mostPools: 3, keepMs: 600_000 });
    for (let i = 0; i < 10; i += 1) await read(of('home', 'a'));
    const before = opened;
    expect(before).toBeLessThan(5);
    await read(of('home', 'b'));
    expect(opened).toBe(before + 1);
    // Those of the least recently used sets are closed.
    for (const set of ['c', 'd', 'e']) await read(of('home', set));
    await eventually(async () => (await open()) === 3, { what: 'connections to be closed' });
  });

  test('are closed after some time without use, whatever the server says', async () => {
    await read(clients({ keepMs: 200 })('home', 'set'));
    await eventually(async () => (await open()) === 0, { what: 'the unused connection to be closed' });
  });

  test('are few however many sets a Capsule has, and the unused ones of a Capsule with many go first', async () => {
    const of = clients({ most: 8, keepMs: 600_000 });
    await read(of('quiet', 'quiet'));
    for (let set = 0; set < 10; set += 1) {
      const s3 = of('home', `set-${set}`);
      await Promise.all([read(s3), read(s3), read(s3)]);
    }
    await eventually(async () => (await open()) <= 8, { what: 'few connections to be left' });
    const before = opened;
    await read(of('quiet', 'quiet'));
    await read(of('home', 'set-9'));
    expect(opened).toBe(before);
    await read(of('home', 'set-0'));
    expect(opened).toBe(before + 1);
  });

  test('that are in use stay open when there are too many, and a request that waited for its turn is sent', async () => {
    const of = clients({ most: 2 });
    const begun: ServerResponse[] = [];
    answer = (response) => {
      response.write('te');
      begun.push(response);
    };
    const waiting = of('home', 'first');
    const reads = ['first', 'second', 'third', 'fourth'].map((set) => read(of('home', set)));
    await eventually(() => begun.length === 4, { what: 'four requests' });
    reads.push(read(waiting));
    await eventually(() => begun.length === 5, { what: 'a request to a set whose pool was closed' });
    for (const response of begun) response.end('xt');
    await Promise.all(reads);
    await eventually(async () => (await open()) <= 2, { what: 'few connections to be left' });
  });

  test('are read in turns while others have requests, also for what is of no body', async () => {
    const line: (() => void)[] = [];
    const inTurn = <T>(act: () => T) => new Promise<T>((resolve) => void line.push(() => resolve(act())));
    let socket: Socket | null = null;
    answer = (response) => {
      socket = response.socket;
      socket?.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;');
      const extension = Buffer.alloc(64 * 1024, 'a');
      const more = () => {
        while (socket?.write(extension) === true);
      };
      socket?.on('error', () => undefined).on('drain', more);
      more();
    };
    const s3 = clients({ passingOf: () => ({ isShared: () => true, inTurn }) })('home', 'set');
    const gone = new AbortController();
    const reading = s3.read('key', 100, { signal: gone.signal }).catch(() => 'ended');
    const sent = () => (socket === null ? 0 : socket.bytesWritten - socket.writableLength);
    await eventually(() => line.length > 0, { what: 'what arrives to wait for its turn' });
    await eventually(
      async () => {
        const before = sent();
        await new Promise((resolve) => setTimeout(resolve, 500));
        return before > 0 && sent() === before;
      },
      { what: 'the server to wait' },
    );
    const before = sent();
    await eventually(
      async () => {
        line.shift()?.();
        await new Promise((resolve) => setImmediate(resolve));
        expect(line.length).toBeLessThanOrEqual(1);
        return sent() > before + 2 ** 20;
      },
      { what: 'the server to go on as turns come' },
    );
    gone.abort();
    expect(await reading).toBe('ended');
  });

  test('are read at once, in nobody’s turn, when the server resets them after an answer', async () => {
    let raw: Socket | undefined;
    server.once('connection', (socket) => {
      raw = socket;
    });
    answer = (response) => {
      response.writeHead(412, { connection: 'close', 'content-type': 'application/xml' });
      response.end('<Error><Code>PreconditionFailed</Code></Error>', () => raw?.resetAndDestroy());
    };
    const never = () => ({ isShared: () => true, inTurn: () => new Promise<never>(() => undefined) });
    const s3 = clients({ passingOf: never })('home', 'set');
    await expect(s3.put('key', Buffer.from('body'))).rejects.toMatchObject({ code: 'PreconditionFailed' });
  });
});
