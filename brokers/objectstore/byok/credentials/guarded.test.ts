import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttps, type Server as HttpsServer } from 'node:https';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTls, type TLSSocket } from 'node:tls';
import { type Dialler, dialler, portOf } from '@space/broker-kit';
import type { Dispatcher } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeAuthority, makeRsaCertificate } from '../../../../testing/certificates.ts';
import { startTicketServer } from '../../../../testing/ticket-server.ts';
import { ALONE } from '../../testing/passing.ts';
import {
  contextWith,
  guardedClient,
  guardedPool,
  openReach,
  type ReachSettings,
  reachGuard,
} from './guarded.ts';

const settings: ReachSettings = {
  BYOK_FIXED_HOSTS: [],
  BYOK_DENIED_BLOCKS: [],
  BYOK_ALLOWED_BLOCKS: [],
  BYOK_NAT64_PREFIXES: [],
};

test('addresses in the network’s own NAT64 prefix are checked, also for Capsules’ endpoints', () => {
  const [inside, metadata, outside] = ['2a00:64::10.1.2.3', '2a00:64::169.254.169.254', '2a00:64::8.8.8.8'];
  const usual = reachGuard(settings);
  expect([inside, outside].map((at) => usual.permits(at))).toEqual([true, true]);
  const told = reachGuard({ ...settings, BYOK_NAT64_PREFIXES: ['2a00:64::/96'] });
  expect([inside, metadata, outside].map((at) => told.permits(at))).toEqual([false, false, true]);
});

test('an invalid prefix stops the start, with the setting’s name and the fault', () => {
  const wrong = { ...settings, BYOK_NAT64_PREFIXES: ['2a00:64::/97'] };
  expect(() => reachGuard(wrong)).toThrow(/BYOK_NAT64_PREFIXES.*2a00:64::\/97/);
});

const directory = mkdtempSync(join(tmpdir(), 'space-guarded-'));
const authority = makeAuthority(directory, 'ca');
const ca = readFileSync(authority.cert, 'utf8');
const within = (ms = 60_000) => AbortSignal.timeout(ms);
/** Leads every name to the loopback, and notes which ports were asked for. */
function noting(port: () => number): Dialler & { readonly asked: number[] } {
  const real = dialler({
    resolve: async () => [{ address: '127.0.0.1', ttl: 60, trusted: true }],
    guard: reachGuard(settings),
  });
  const asked: number[] = [];
  const dial: Dialler['dial'] = (host, wanted, signal) => {
    asked.push(wanted);
    return real.dial(host, port(), signal);
  };
  return { ...real, asked, dial };
}

afterAll(() => rmSync(directory, { recursive: true }));

test('CAs that an administrator trusts in addition to the system’s are read from the configured file', async () => {
  expect((await openReach(settings)).ca).toBeUndefined();
  expect((await openReach({ ...settings, BYOK_CA_FILE: authority.cert })).ca).toBe(ca);
});

test('authorities are parsed once for all connections', () => {
  expect(contextWith(ca)).toBe(contextWith(ca));
  expect(contextWith(undefined)).toBe(contextWith(undefined));
  expect(contextWith(ca)).not.toBe(contextWith(undefined));
});

describe('a connection to a host that a tenant has named', () => {
  let server: HttpsServer;
  let seen: { alpn: unknown; name: unknown; protocol: unknown } | undefined;
  beforeAll(async () => {
    const { cert, key } = authority.sign('s3', ['DNS:s3.tenant.example']);
    const pair = { cert: readFileSync(cert), key: readFileSync(key) };
    server = createHttps({ ...pair, ALPNProtocols: ['h2', 'http/1.1'] }, ({ socket }, response) => {
      const { alpnProtocol, servername, getProtocol } = socket as TLSSocket & { servername: unknown };
      seen = { alpn: alpnProtocol, name: servername, protocol: getProtocol.call(socket) };
      response.end('answer');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => server.close());

  const kinds: readonly [string, (origin: string, to: Dialler, ca: string | undefined) => Dispatcher][] = [
    ['a client', (origin, to, ca) => guardedClient(origin, { dialler: to, ca, deadline: within() })],
    [
      'a pool',
      (origin, to, ca) =>
        guardedPool(origin, { dialler: to, ca, connections: 2, keepMs: 20_000, passing: ALONE }),
    ],
  ];

  test.each(kinds)('of %s is one of HTTP/1.1 for that name, at the usual port', async (_, make) => {
    const to = noting(() => portOf(server));
    const client = make('https://s3.tenant.example', to, ca);
    const { body } = await client.request({ path: '/', method: 'GET' });
    expect(await body.text()).toBe('answer');
    expect(seen).toEqual({ alpn: 'http/1.1', name: 's3.tenant.example', protocol: 'TLSv1.3' });
    expect(to.asked).toEqual([443]);
    await client.destroy();
  });

  test.each(kinds)('of %s goes to the port that was named', async (_, make) => {
    const to = noting(() => portOf(server));
    const client = make('https://s3.tenant.example:8443', to, ca);
    await (await client.request({ path: '/', method: 'GET' })).body.dump();
    expect(to.asked).toEqual([8_443]);
    await client.destroy();
  });

  test.each(kinds)('of %s is abandoned if no trusted CA certifies the name', async (_, make) => {
    for (const [origin, trusted, code] of [
      ['https://s3.tenant.example', undefined, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
      ['https://other.example', ca, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ] as const) {
      const client = make(
        origin,
        noting(() => portOf(server)),
        trusted,
      );
      await expect(client.request({ path: '/', method: 'GET' })).rejects.toMatchObject({ code });
      await client.destroy();
    }
  });

  test('of a pool sends as many bytes as announced, or none', async () => {
    const pool = guardedPool('https://s3.tenant.example', {
      ...{ dialler: noting(() => portOf(server)), ca, connections: 1, keepMs: 20_000, passing: ALONE },
    });
    const headers = { 'content-length': '9' };
    await expect(
      pool.request({ path: '/', method: 'PUT', headers, body: Buffer.from('four') }),
    ).rejects.toMatchObject({ code: 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH' });
    await pool.destroy();
  });
});

test('a host that demands a new handshake on a connection of TLS 1.2 gets none, and loses the connection', async () => {
  const { cert, key } = authority.sign('again', ['DNS:s3.tenant.example']);
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  let handshakes = 0;
  const ended = Promise.withResolvers<void>();
  const server = createTls({ ...pair, maxVersion: 'TLSv1.2' }, (socket) => {
    socket.on('error', () => undefined).once('close', () => ended.resolve());
    socket.once('data', () =>
      socket.renegotiate({}, (error) => {
        if (error !== null) return;
        handshakes += 1;
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nanswer');
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const pool = guardedPool('https://s3.tenant.example', {
    ...{ dialler: noting(() => portOf(server)), ca, connections: 1, keepMs: 20_000, passing: ALONE },
  });
  try {
    await expect(pool.request({ path: '/', method: 'GET' })).rejects.toThrow('asked for another handshake');
    await ended.promise;
    expect(handshakes).toBe(0);
  } finally {
    await pool.destroy();
    server.close();
  }
});

test('a host sends a client no more than answers to a few small requests have', async () => {
  const { cert, key } = authority.sign('much', ['DNS:s3.tenant.example']);
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  const { promise: sent, resolve } = Promise.withResolvers<number>();
  const server = createTls(pair, (socket) => {
    const extension = Buffer.alloc(64 * 1024, 'a');
    const bytes = () => socket.bytesWritten - socket.writableLength;
    const more = () => {
      // It goes on for as long as it likes.
      if (bytes() > 256 * 2 ** 20) socket.destroy();
      while (!socket.destroyed && socket.write(extension));
    };
    socket.on('error', () => undefined).on('drain', more);
    socket.once('close', () => resolve(bytes()));
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;');
      more();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const to = noting(() => portOf(server));
  const client = guardedClient('https://s3.tenant.example', { dialler: to, ca, deadline: within() });
  try {
    const { body } = await client.request({ path: '/', method: 'GET' });
    await expect(body.text()).rejects.toThrow();
    expect(await sent).toBeLessThan(64 * 2 ** 20);
  } finally {
    await client.destroy();
    server.close();
  }
});

test('a host of TLS 1.3 that sends tickets of its session without end loses the connection', async () => {
  const pair = authority.sign('tickets', ['DNS:s3.tenant.example']);
  for (const tickets of [4, 100]) {
    const server = await startTicketServer(pair, tickets);
    const pool = guardedPool('https://s3.tenant.example', {
      ...{ dialler: noting(() => server.port), ca, connections: 1, keepMs: 20_000, passing: ALONE },
    });
    try {
      const asked = pool.request({ path: '/', method: 'GET' });
      if (tickets === 4) expect((await asked).statusCode).toBe(200);
      else await expect(asked).rejects.toThrow('the host sends tickets without end');
    } finally {
      await pool.destroy();
      server.end();
    }
  }
});

test('a host that knows only a key exchange whose numbers it chooses itself gets none', async () => {
  const { cert, key } = makeRsaCertificate('s3.tenant.example');
  const suite = { ciphers: 'DHE-RSA-AES128-GCM-SHA256', dhparam: 'auto', maxVersion: 'TLSv1.2' } as const;
  let handshakes = 0;
  const server = createTls({ cert, key, ...suite }, (socket) => {
    handshakes += 1;
    socket.on('error', () => undefined).end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nanswer');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const pool = guardedPool('https://s3.tenant.example', {
    ...{ dialler: noting(() => portOf(server)), ca: cert, connections: 1, keepMs: 20_000, passing: ALONE },
  });
  try {
    await expect(pool.request({ path: '/', method: 'GET' })).rejects.toThrow();
    expect(handshakes).toBe(0);
  } finally {
    await pool.destroy();
    server.close();
  }
});

describe('a host that does not start TLS', () => {
  let server: Server;
  let onConnection: (socket: Socket) => void;
  beforeAll(async () => {
    server = createServer((socket) => onConnection(socket.on('error', () => undefined)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => server.close());

  const ask = (deadline: AbortSignal) =>
    guardedClient('https://s3.tenant.example', {
      ...{ dialler: noting(() => portOf(server)), ca: undefined, deadline },
    }).request({ path: '/', method: 'GET' });

  test('is waited for until the deadline', async () => {
    const deadline = new AbortController();
    onConnection = (socket) => socket.once('data', () => deadline.abort());
    await expect(ask(deadline.signal)).rejects.toThrow('the deadline passed');
  });

  test('and disconnects, or sends something else, is an error', async () => {
    onConnection = (socket) => socket.destroy();
    await expect(ask(within())).rejects.toThrow();
    onConnection = (socket) => socket.resetAndDestroy();
    await expect(ask(within())).rejects.toThrow();
    onConnection = (socket) => socket.end('SSH-2.0-OpenSSH_9\r\n');
    await expect(ask(within())).rejects.toThrow();
  });
});
