import { request } from 'node:http';
import { newToken } from '@space/broker-kit';
import type { Definition } from '@space/manifests';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { digest, makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';

/** Connections to hosts of stored inputs that nobody uses any more; what is counted is how often hosts are connected to. */

const HOSTS = ['a.bank.org', 'b.bank.org', 'c.bank.org'] as const;
const OTHER = 'other.bank.org';
const input = (host: string): Definition => ({
  host,
  routes: [{ method: 'GET', path: '/v1' }],
  header: 'X-Api-Key',
});

let pki: TestPki;
let upstreams: ReadonlyMap<string, TestUpstream>;
let test: TestGateway;

beforeAll(async () => {
  pki = await makePki();
});
afterAll(() => pki.remove());
beforeEach(async () => {
  const certificate = await pki.issue(...HOSTS, OTHER);
  const started = [...HOSTS, OTHER].map(async (host) => [host, await startUpstream(certificate)] as const);
  upstreams = new Map(await Promise.all(started));
  const fixed = [...upstreams].map(
    ([host, { port }]) => [host, { address: '127.0.0.1', port, ttl: 60, trusted: true }] as const,
  );
  test = await makeGateway({
    fixed: new Map(fixed),
    authorities: pki.authority,
    limits: { unusedUpstreams: 2 },
  });
});
afterEach(async () => {
  await test.close();
  for (const upstream of upstreams.values()) await upstream.close();
});

const connections = (host: string) => upstreams.get(host)?.connections() ?? 0;

function ask(key: string, principal = test.principal): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'assistant-egress', authorization: `Bearer ${principal}` };
    const where = { host: '127.0.0.1', port: test.port, path: `/i/${key}/v1`, headers, agent: false };
    request(where, (response) => response.resume().once('end', () => resolve(response.statusCode)))
      .on('error', reject)
      .end();
  });
}

it('are few, and those of a Capsule with many go first, the longest unused first', async () => {
  await test.put({}, { a: input('a.bank.org'), b: input('b.bank.org'), c: input('c.bank.org') });
  const other = newToken('egr').reveal();
  const quiet = { capsule_id: 'quiet', assistant_uid: 'uid-2', principals: [digest(other)] };
  await test.put(quiet, { key: input(OTHER) });

  expect(await ask('key', other)).toBe(200);
  for (const key of ['a', 'b', 'c']) expect(await ask(key)).toBe(200);
  // Of four connections two are left: the quiet Capsule's, and the one that was used last.
  const open = () => [...upstreams.values()].reduce((sum, upstream) => sum + upstream.open(), 0);
  await eventually(() => open() === 2, { what: 'two connections to be left' });
  expect([await ask('key', other), await ask('c')]).toEqual([200, 200]);
  expect([connections(OTHER), connections('c.bank.org')]).toEqual([1, 1]);
  expect([await ask('a'), await ask('b')]).toEqual([200, 200]);
  expect([connections('a.bank.org'), connections('b.bank.org')]).toEqual([2, 2]);
});
