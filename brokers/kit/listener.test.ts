import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { Secret } from '@space/contracts/secret';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { type Listener, type ListenOptions, listen, type TlsMaterial } from './listener.ts';
import { createLogger } from './log.ts';
import { closeNow, createMetrics, portOf } from './metrics.ts';
import { GatheredRequest } from './small-pieces.ts';

const ERROR = /^HTTP\/1\.1 400 [\s\S]*\{"error":\{"code":"invalid_request"\},"trace_id":"[0-9a-f]{32}"\}$/;

let directory: string;
let material: TlsMaterial;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'space-listener-'));
  const { cert, key } = makeAuthority(directory, 'authority').sign('server', ['IP:127.0.0.1']);
  material = { cert: readFileSync(cert, 'utf8'), key: new Secret(readFileSync(key, 'utf8')) };
});
afterAll(() => rmSync(directory, { recursive: true }));

let listener: Listener | undefined;
const metrics = createMetrics();
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  if (listener !== undefined) await closeNow(listener.server);
});

/** Answers every request at once, and reads no body. */
async function serving(
  options: Partial<ListenOptions> = {},
  answer = (response: ServerResponse): void => void response.end('served'),
): Promise<number> {
  listener = await listen(
    { listener: (_, response) => answer(response), drain: () => undefined },
    {
      name: 'control',
      host: '127.0.0.1',
      port: 0,
      connections: { total: 100, perAddress: 20 },
      log: createLogger({ service: 'test', level: 'silent' }),
      metrics,
      ...options,
    },
  );
  return portOf(listener.server);
}

function opened(port: number, options: { from?: string; allowHalfOpen?: boolean } = {}): Socket {
  const { from: localAddress = '127.0.0.1', allowHalfOpen = false } = options;
  const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen });
  socket.on('error', () => undefined);
  sockets.add(socket);
  return socket;
}

/** What came until the server had ended the connection. */
async function said(socket: Socket, bytes: string): Promise<string> {
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString('latin1')));
  socket.write(bytes);
  await once(socket, 'end');
  return text;
}

/** However it ends: what comes in after the end is answered with a reset. */
const closed = (socket: Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()));

/** A caller that never ends its own side cannot see it: no connection is left. */
const allEnded = () =>
  vi.waitFor(async () => {
    const { values } = await metrics.connections.get();
    expect(values.map(({ value }) => value)).toEqual([0]);
  }, 240_000);

const refused = async (reason: string) => {
  const { values } = await metrics.refusedConnections.get();
  return values.find(({ labels }) => labels.reason === reason)?.value ?? 0;
};

describe('a TLS listener', () => {
  const quick = { handshakeTimeout: 200 };

  it('ends a connection that never sends anything', async () => {
    const before = await refused('handshake');
    const socket = opened(await serving({ tls: material, limits: quick }));
    await once(socket, 'close');
    expect(await refused('handshake')).toBe(before + 1);
  });

  it('waits some seconds for a handshake by default', async () => {
    const before = await refused('handshake');
    const begun = performance.now();
    await once(opened(await serving({ tls: material })), 'close');
    expect(await refused('handshake')).toBe(before + 1);
    // Node would give it two minutes.
    expect(performance.now() - begun).toBeLessThan(60_000);
  });

  it('ends a handshake that comes byte by byte', async () => {
    const socket = opened(await serving({ tls: material, limits: quick }));
    const hello = Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]);
    let sent = 0;
    const drip = setInterval(() => socket.write(hello.subarray(sent % 5, (sent++ % 5) + 1)), 20);
    await closed(socket);
    clearInterval(drip);
  });

  it('ends a connection with another protocol, without an answer', async () => {
    const port = await serving({ tls: material });
    expect(await said(opened(port), 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).not.toContain('HTTP');
  });

  it('ends a connection that is silent after the handshake', async () => {
    const port = await serving({ tls: material, limits: { headersTimeout: 200 } });
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    socket.on('error', () => undefined);
    sockets.add(socket);
    socket.resume();
    await once(socket, 'close');
  });

  it('begins no handshake with an address that has used its share of connections', async () => {
    const port = await serving({ tls: material, connections: { total: 8, perAddress: 2 } });
    const kept = [opened(port, { from: '127.0.0.2' }), opened(port, { from: '127.0.0.2' })];
    await Promise.all(kept.map((socket) => once(socket, 'connect')));
    const before = await refused('share');
    await once(opened(port, { from: '127.0.0.2' }), 'close');
    expect(await refused('share')).toBe(before + 1);
    const other = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    sockets.add(other);
    expect(await said(other, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')).toContain('served');
  });
});

describe('a listener', () => {
  it('listens on addresses of both families if it is bound to none', async () => {
    const port = await serving({ host: undefined });
    for (const host of ['127.0.0.1', '[::1]'])
      expect(await (await fetch(`http://${host}:${port}/`)).text()).toBe('served');
  });

  it('ends a connection without a request silently, and one with half a request with 400', async () => {
    const port = await serving({ limits: { headersTimeout: 200 } });
    const before = await refused('silent');
    expect(await said(opened(port), 'GET / HTTP/1.1\r\n')).toMatch(ERROR);
    expect(await said(opened(port), '')).toBe('');
    expect(await refused('silent')).toBe(before + 1);
  });

  it('ends connections that became silent together a few at a time, so that others are served in between', async () => {
    const port = await serving({
      limits: { headersTimeout: 200 },
      connections: { total: 200, perAddress: 200 },
    });
    const endedIn: number[] = [];
    let turn = 0;
    const count = () => {
      turn += 1;
      if (sockets.size > 0) setImmediate(count);
    };
    listener?.server.on('connection', (socket) => socket.once('close', () => endedIn.push(turn)));
    for (let i = 0; i < 200; i += 1) opened(port);
    count();
    await vi.waitFor(() => expect(endedIn).toHaveLength(200), 240_000);
    const atOnce = [...Map.groupBy(endedIn, (one) => one).values()].map(({ length }) => length);
    expect(Math.max(...atOnce)).toBeLessThanOrEqual(32);
  });

  it.for([
    ['of HTTP/2.0', 'GET / HTTP/2.0\r\nHost: x\r\n\r\n'],
    ['of HTTP/0.9', 'GET / HTTP/0.9\r\nHost: x\r\n\r\n'],
    ['with two Host headers', 'GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n'],
    [
      'with two Content-Type headers',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 0\r\ncontent-type: a/b\r\n\r\n',
    ],
    ['that is none', 'nonsense\r\n\r\n'],
  ] as const)('answers a request %s with 400 and our body', async ([, bytes]) => {
    expect(await said(opened(await serving()), bytes)).toMatch(ERROR);
  });

  it('ends the connection after such an answer, although the caller does not close its side', async () => {
    const socket = opened(await serving(), { allowHalfOpen: true });
    await expect(said(socket, 'GET / HTTP/2.0\r\nHost: x\r\n\r\n')).resolves.toMatch(ERROR);
    await allEnded();
  });

  it.for(['GET', 'HEAD', 'DELETE'])(
    'answers a %s whose body never arrives, and ends the connection',
    async (method) => {
      const port = await serving({ limits: { requestTimeout: 0 } });
      const socket = opened(port, { allowHalfOpen: true });
      const text = await said(socket, `${method} /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n`);
      expect(text).toMatch(/^HTTP\/1\.1 200 [\s\S]*connection: close/i);
      await allEnded();
    },
  );

  it('ends a connection on which something malformed follows while an answer is sent, without an error in it', async () => {
    const port = await serving({}, (response) => {
      response.writeHead(200, { 'content-length': 1_000 }).write('begun');
    });
    const socket = opened(port);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
      if (text.endsWith('begun')) socket.write('no request\r\n\r\n');
    });
    const ended = closed(socket);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await ended;
    expect(text).toMatch(/\r\n\r\nbegun$/);
  });

  it('ends a connection if the rest of a body does not follow the answer', async () => {
    const port = await serving({ limits: { requestTimeout: 0 } });
    const socket = opened(port, { allowHalfOpen: true });
    const text = await said(socket, 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbegun');
    expect(text).toContain('served');
    await allEnded();
  });

  it('keeps a connection whose body ended after it was refused', async () => {
    const cut = vi.spyOn(Socket.prototype, 'destroy');
    const socket = opened(await serving());
    const request = 'PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n';
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      socket.write(`${request}begun`.slice(0, -1));
      expect(String((await once(socket, 'data'))[0])).toContain('served');
      socket.write('n');
      // The answer to a second request says that the rest of the first was read.
      socket.write(`${request}whole`);
      expect(String((await once(socket, 'data'))[0])).toContain('served');
      await vi.advanceTimersByTimeAsync(60_000);
    } finally {
      vi.useRealTimers();
    }
    expect(cut).not.toHaveBeenCalled();
    cut.mockRestore();
    socket.write(`${request}again`);
    expect(String((await once(socket, 'data'))[0])).toContain('served');
  });

  it('keeps a connection whose body was held when it was refused, and drains it', async () => {
    const port = await serving({}, (response) => {
      const { req } = response;
      if (req instanceof GatheredRequest) req.held = true;
      response.end('refused');
    });
    const socket = opened(port);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    const request = `PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: ${2 ** 20}\r\n\r\n`;
    for (const answers of [1, 2]) {
      socket.write(request);
      socket.write(Buffer.alloc(2 ** 20));
      await eventually(() => text.split('refused').length === answers + 1 && socket.writableLength === 0, {
        what: 'an answer, and the body to be taken',
      });
    }
  });

  it('keeps a connection whose body was read to its end', async () => {
    const socket = opened(await serving());
    const request = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}';
    for (let i = 0; i < 2; i += 1) {
      socket.write(request);
      expect(String((await once(socket, 'data'))[0])).toMatch(/keep-alive/i);
    }
  });
});

it('logs what the parser refuses of one address so often, and then how much more there was', async () => {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const log = createLogger({ service: 'test', level: 'info', destination });
  const port = await serving({ log });
  const leftOut = () => lines.find(({ left_out }) => left_out !== undefined);
  let sent = 0;
  while (leftOut() === undefined) {
    await Promise.all(Array.from({ length: 20 }, () => said(opened(port), 'nonsense\r\n\r\n')));
    sent += 20;
  }
  expect(leftOut()).toMatchObject({ event: 'request', address: '127.0.0.1' });
  expect(lines.filter(({ msg }) => msg === 'request').length).toBeLessThan(sent);
});

describe.each(['plain', 'TLS'] as const)('requests that do not wait for an answer, in %s', (how) => {
  it('end their connection, and of a thousand in one segment two are read', async () => {
    const port = await serving(how === 'TLS' ? { tls: material } : {});
    let heads = 0;
    listener?.server.on('request', () => {
      heads += 1;
    });
    const at = { port, host: '127.0.0.1' };
    const socket = how === 'TLS' ? connectTls({ ...at, rejectUnauthorized: false }) : connect(at);
    sockets.add(socket.on('error', () => undefined).resume());
    const ended = closed(socket);
    socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(500));
    await ended;
    expect(heads).toBe(2);
    // The parser goes back to those that are used again.
    if (how === 'plain')
      expect(await said(opened(port), 'GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')).toMatch(
        /^HTTP\/1\.1 200 [\s\S]*served$/,
      );
  });
});
