import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';

/** Requests of one connection that are not waited for: each would be one more to hold, at the price of some bytes. */

const HOST = 'api.bank.org';
const ROUTES = ['/silent', '/other'].map((path) => ({ method: 'GET' as const, path }));

let pki: TestPki;
let upstream: TestUpstream;
let test: TestGateway;

beforeAll(async () => {
  pki = await makePki();
  upstream = await startUpstream(await pki.issue(HOST));
});
beforeEach(async () => {
  test = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true }]]),
    authorities: pki.authority,
  });
  await test.put({ allowed_hosts: [HOST] }, { key: { host: HOST, routes: ROUTES, header: 'X-Api-Key' } });
});
afterEach(() => test.close());
afterAll(async () => {
  await upstream.close();
  await pki.remove();
});

const get = (path: string) =>
  `GET /i/key${path} HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\n\r\n`;
const open = () => `CONNECT ${HOST}:443 HTTP/1.1\r\nhost: ${HOST}:443\r\n\r\n`;

it.each([
  ['request', () => get('/other')],
  ['tunnel', open],
])('a %s before the answer to another ends the connection', async (_, second) => {
  upstream.answer = () => undefined;
  const asked = upstream.seen.length;
  const socket = connect(test.port, '127.0.0.1').on('error', () => undefined);
  const ended = new Promise((resolve) => socket.once('close', resolve));
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.write(get('/silent'));
  while (upstream.seen.length === asked) await new Promise((resolve) => setTimeout(resolve, 5));
  socket.write(second());
  await ended;
  expect(text).toBe('');
  while (test.log.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(test.log.map((line) => JSON.parse(line).code)).toEqual(['request_timeout']);
  expect(upstream.seen).toHaveLength(asked + 1);
});

it('of a thousand requests in one segment only the one that ends the connection is read', async () => {
  upstream.answer = () => undefined;
  let heads = 0;
  test.gateway.listener.server.on('request', () => {
    heads += 1;
  });
  const socket = connect(test.port, '127.0.0.1').on('error', () => undefined);
  const ended = new Promise((resolve) => socket.once('close', resolve));
  socket.write('GET / HTTP/1.1\r\n\r\n'.repeat(1_000));
  await ended;
  while (test.log.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(heads).toBe(2);
  // The parser goes back to those that are used again.
  upstream.answer = (_, response) => response.end('ok');
  const answer = await test.raw(get('/other').replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n'));
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
});

it('requests that wait for the previous answer share a connection', async () => {
  upstream.answer = (_, response) => response.end('ok');
  const socket = connect(test.port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  for (let asked = 1; asked <= 50; asked++) {
    socket.write(get('/other'));
    while (text.split('HTTP/1.1 200').length - 1 < asked || !text.endsWith('ok'))
      await new Promise((resolve) => socket.once('data', resolve));
  }
  expect(socket.destroyed).toBe(false);
  socket.destroy();
});

it('a tunnel that is requested on a busy connection and reset while the replica drains ends nothing else', async () => {
  const unheard: unknown[] = [];
  const hear = (error: unknown) => unheard.push(error);
  process.on('uncaughtException', hear);
  try {
    upstream.answer = () => undefined;
    const asked = upstream.seen.length;
    const busy = connect(test.port, '127.0.0.1').on('error', () => undefined);
    busy.write(get('/silent'));
    const idle = connect(test.port, '127.0.0.1').on('error', () => undefined);
    idle.write('CONNECT x');
    while (upstream.seen.length === asked) await new Promise((resolve) => setTimeout(resolve, 5));
    const closing = test.gateway.listener.close();
    const ended = [busy, idle].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    busy.write(open());
    idle.write(':443 HTTP/1.1\r\n\r\n');
    for (const socket of [busy, idle]) socket.resetAndDestroy();
    await Promise.all(ended);
    await closing;
  } finally {
    process.off('uncaughtException', hear);
  }
  expect(unheard).toEqual([]);
});
