import { once } from 'node:events';
import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { portOf } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';

/** A connection that a host ends just when a request is sent on it. */

const HOST = 'api.bank.org';
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
const HALF = 'HTTP/1.1 200 OK\r\ncontent-le';

let pki: TestPki;
let certificate: { readonly cert: string; readonly key: string };
let test: TestGateway;
let server: Server;
/** The requests that the host received, by connection. */
let sent: { readonly connection: number; readonly method: string }[];
const sockets = new Set<Socket>();

beforeAll(async () => {
  pki = await makePki();
  certificate = await pki.issue(HOST);
});
afterAll(() => pki.remove());
afterEach(async () => {
  await test.close();
  for (const socket of sockets) socket.destroy();
  server.close();
});

/** What the host does with the nth request of its nth connection, both from 1. */
async function start(serve: (socket: TLSSocket, connection: number, request: number) => void): Promise<void> {
  let opened = 0;
  sent = [];
  server = createServer(certificate, (socket) => {
    opened += 1;
    const connection = opened;
    let requests = 0;
    sockets.add(socket.on('error', () => undefined));
    socket.on('data', (bytes) => {
      requests += 1;
      sent.push({ connection, method: String(bytes).split(' ', 1)[0] ?? '' });
      serve(socket, connection, requests);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = { address: '127.0.0.1', port: portOf(server), ttl: 60, trusted: true as const };
  test = await makeGateway({ fixed: new Map([[HOST, address]]), authorities: pki.authority });
  const routes = (['GET', 'POST'] as const).map((method) => ({ method, path: '/v1' }));
  await test.put({}, { key: { host: HOST, routes, header: 'X-Api-Key' } });
}

async function ask(method: string, body = ''): Promise<string> {
  const length = body === '' ? '' : `content-length: ${body.length}\r\n`;
  const head = `${method} /i/key/v1 HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\n`;
  const text = await test.raw(`${head}connection: close\r\n${length}\r\n${body}`);
  return `${text.split(' ')[1]} ${/platform-egress-error: (\w+)/.exec(text)?.[1] ?? text.split('\r\n\r\n')[1]}`;
}
const FAILED = '502 upstream_failed';

describe('a request whose connection its host ends', () => {
  it('is sent once more when the connection had served others', async () => {
    await start((socket, connection, request) => {
      if (connection === 1 && request === 2) socket.destroy();
      else socket.write(OK);
    });
    expect([await ask('GET'), await ask('GET')]).toEqual(['200 ok', '200 ok']);
    expect(sent.map(({ connection }) => connection)).toEqual([1, 1, 2]);
  });

  it('is not sent a third time', async () => {
    await start((socket, connection, request) => {
      if (connection === 1 && request === 1) socket.write(OK);
      else socket.destroy();
    });
    expect([await ask('GET'), await ask('GET')]).toEqual(['200 ok', FAILED]);
    expect(sent).toHaveLength(3);
  });

  it('is not sent again when it was the first on its connection', async () => {
    await start((socket) => socket.destroy());
    expect(await ask('GET')).toBe(FAILED);
    expect(sent).toHaveLength(1);
  });

  it.each(['', 'body'])('is not sent again when it may change something: "%s"', async (body) => {
    await start((socket, _, request) => {
      if (request === 2) socket.destroy();
      else socket.write(OK);
    });
    expect([await ask('GET'), await ask('POST', body)]).toEqual(['200 ok', FAILED]);
    expect(sent.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  it('is not sent again if an answer had begun', async () => {
    await start((socket, _, request) => {
      if (request === 1) socket.write(OK);
      else socket.end(HALF);
    });
    expect([await ask('GET'), await ask('GET')]).toEqual(['200 ok', FAILED]);
    expect(sent).toHaveLength(2);
  });
});

it.each(['GET', 'POST'])('a host that ends each connection at once is abandoned: %s', async (method) => {
  await start(() => undefined);
  let opened = 0;
  server.on('secureConnection', (socket) => {
    opened += 1;
    socket.destroy();
  });
  expect(await ask(method)).toBe(FAILED);
  expect(opened).toBeLessThanOrEqual(2);
});

it.each(['GET', 'POST'])(
  'a connection that its host has ended in the meantime is not used: %s',
  async (method) => {
    await start((socket, connection) => socket[connection === 1 ? 'end' : 'write'](OK));
    expect([await ask('GET'), await ask(method)]).toEqual(['200 ok', '200 ok']);
    expect(sent.map(({ connection }) => connection)).toEqual([1, 2]);
  },
);
