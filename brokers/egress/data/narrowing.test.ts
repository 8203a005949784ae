import { once } from 'node:events';
import { request } from 'node:http';
import { connect as connectTls } from 'node:tls';
import type { Definition } from '@space/manifests';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';

const HOST = 'api.bank.org';
const OTHER = 'other.bank.org';
const MANY = 50;
const INPUT: Definition = { host: HOST, routes: [{ method: 'GET', path: '/v1/rates' }], header: 'X-Api-Key' };

let pki: TestPki;
let upstream: TestUpstream;
let test: TestGateway;

beforeAll(async () => {
  pki = await makePki();
  upstream = await startUpstream(await pki.issue(HOST, OTHER));
  const answer = { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true as const };
  const fixed = new Map([HOST, OTHER].map((host) => [host, answer]));
  const limits = { tunnels: 2 * MANY, requests: 2 * MANY, helloMs: 60_000, perSecond: 10_000, burst: 10_000 };
  test = await makeGateway({ fixed, authorities: pki.authority, limits });
});
afterAll(async () => {
  await test.close();
  await upstream.close();
  await pki.remove();
});

async function openTunnel(host: string) {
  const { socket } = await test.tunnel(`${host}:443`);
  const secure = connectTls({ socket, servername: host, ca: pki.authority }).on('error', () => undefined);
  await once(secure, 'secureConnect');
  return { ended: once(secure, 'close'), socket: secure };
}

/** Resolves with the result of a request that its upstream never answers. */
function ask(key: string): Promise<string> {
  return new Promise((resolve) => {
    const headers = { host: 'assistant-egress', authorization: `Bearer ${test.principal}` };
    const where = { host: '127.0.0.1', port: test.port, path: `/i/${key}/v1/rates`, headers, agent: false };
    request(where, (response) => resolve(String(response.statusCode)))
      .on('error', () => resolve('ended'))
      .end();
  });
}

it('a narrower policy ends fifty tunnels and fifty requests, and none that it still permits', async () => {
  upstream.answer = () => undefined;
  await test.put({ allowed_hosts: [HOST, OTHER] }, { gone: INPUT, kept: { ...INPUT, header: 'X-Other' } });
  const tunnels = await Promise.all(Array.from({ length: MANY }, () => openTunnel(HOST)));
  const kept = await openTunnel(OTHER);
  const requests = Array.from({ length: MANY }, () => ask('gone'));
  const keptRequest = ask('kept');
  while (upstream.seen.length < MANY + 1) await new Promise((resolve) => setTimeout(resolve, 5));

  await test.put({ allowed_hosts: [OTHER] }, { kept: { ...INPUT, header: 'X-Other' } });
  await Promise.all(tunnels.map(({ ended }) => ended));
  expect(new Set(await Promise.all(requests))).toEqual(new Set(['ended']));
  // From the acknowledgement on, nothing of the kind begins.
  expect((await test.tunnel(`${HOST}:443`)).head).toContain('host_denied');
  expect(await ask('gone')).toBe('404');
  const codes = () => test.log.map((line) => JSON.parse(line).code);
  const ended = () => codes().filter((code) => code === 'ended').length;
  await eventually(() => ended() >= 2 * MANY, { what: 'their lines of the log' });
  expect(ended()).toBe(2 * MANY);

  expect(kept.socket.destroyed).toBe(false);
  await test.put({ allowed_hosts: [] });
  await kept.ended;
  expect(await keptRequest).toBe('ended');
});
