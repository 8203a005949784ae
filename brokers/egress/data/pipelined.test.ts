import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';
import { makePki, type TestPki } from '../testing/pki.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';

/** Requests of one connection that are not waited for: the answer to the second stands behind that to the first. */

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
  await test.put({}, { key: { host: HOST, routes: ROUTES, header: 'X-Api-Key' } });
});
afterEach(() => test.close());
afterAll(async () => {
  await upstream.close();
  await pki.remove();
});

/** Asks for what is never answered, and for what is answered so behind it; resolves when that was asked of the host. */
async function askBoth(other: RequestListener) {
  const asked = new Promise<void>((resolve) => {
    upstream.answer = (request, response) => {
      if (request.url === '/silent') return;
      other(request, response);
      resolve();
    };
  });
  const get = (path: string) =>
    `GET /i/key${path} HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\n\r\n`;
  const socket = connect(test.port, '127.0.0.1').on('error', () => undefined);
  socket.resume().write(get('/silent') + get('/other'));
  await asked;
  return socket;
}

const codes = async () => {
  while (test.log.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  return test.log.map((line) => (JSON.parse(line) as { code: string }).code);
};

describe('an answer that waits behind another', () => {
  it('takes the connection with it when its host breaks off', async () => {
    const socket = await askBoth((_, response) => {
      response.writeHead(200, { 'content-length': 100 }).write('half', () => response.destroy());
    });
    await once(socket, 'close');
    expect(await codes()).toEqual(['upstream_failed', 'request_timeout']);
  });

  it('is left when the caller leaves', async () => {
    const socket = await askBoth((_, response) => {
      response.write(Buffer.alloc(1024 * 1024));
    });
    socket.destroy();
    expect(await codes()).toEqual(['request_timeout', 'request_timeout']);
  });
});
