import { afterAll, beforeAll, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { basic, makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';

/** Requests that the parser accepts, and that other parsers would read differently. */

const HOST = 'api.bank.org';

let pki: TestPki;
let upstream: TestUpstream;
let test: TestGateway;
beforeAll(async () => {
  pki = await makePki();
  upstream = await startUpstream(await pki.issue(HOST));
  test = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true }]]),
    authorities: pki.authority,
  });
  const routes = [{ method: 'POST' as const, path: '/v1' }];
  await test.put({ allowed_hosts: [HOST] }, { key: { host: HOST, routes, header: 'X-Api-Key' } });
});
afterAll(async () => {
  await test.close();
  await upstream.close();
  pki.remove();
});

const post = (version: string, body: string) =>
  `POST /i/key/v1 HTTP/${version}\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\nconnection: close\r\n${body}`;
const CHUNKED = '3\r\nabc\r\n0\r\n\r\n';

it.each([
  [
    'a body in a coding that nobody would hear of',
    '1.1',
    `transfer-encoding: gzip, chunked\r\n\r\n${CHUNKED}`,
  ],
  ['another version', '2.0', 'content-length: 0\r\n\r\n'],
  ['a version before there were headers', '0.9', 'content-length: 0\r\n\r\n'],
])('%s is refused, and nothing of it is forwarded', async (_, version, rest) => {
  const text = await test.raw(post(version, rest));
  expect(text).toMatch(/^HTTP\/1\.1 400 [\s\S]*invalid_request/);
  expect(upstream.seen).toEqual([]);
});

it.each(['2.0', '0.9'])('a tunnel with HTTP/%s is not opened', async (version) => {
  const credential = `proxy-authorization: ${basic(test.principal)}\r\n`;
  const text = await test.raw(`CONNECT ${HOST}:443 HTTP/${version}\r\n${credential}\r\n`);
  expect(text).toMatch(/^HTTP\/1\.1 400 [\s\S]*invalid_request/);
});

it.each(['1.0', '1.1'])('HTTP/%s with a plain body is forwarded', async (version) => {
  const text = await test.raw(post(version, 'content-length: 3\r\n\r\nabc'));
  expect(text).toMatch(/^HTTP\/1\.1 200 /);
  expect(upstream.seen.at(-1)).toMatchObject({ method: 'POST', body: 'abc' });
});
