import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Secret } from '@space/broker-kit';
import { expect, test } from 'vitest';
import { gatewayCalls } from './calls.ts';

/** A process of a busy machine may stand still for longer than a page waits. */
const timeoutMs = 60_000;
const assistant = { uid: 'u', capsule: 'home', id: 'ledger' };

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::1', '[::1]'],
])('a replica of the gateway is asked at %s', async (address, named) => {
  const hosts: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    hosts.push(request.headers.host);
    response.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const calls = gatewayCalls({
      url: `http://egress-replicas.home-services.svc:${port}`,
      token: () => new Secret('spc_obs_x'),
      lookup: async () => [address],
      timeoutMs,
    });
    expect(await calls(assistant)).toMatchObject({ replicas: 1, silent: 1 });
    expect(hosts).toEqual([`${named}:${port}`]);
  } finally {
    server.close();
  }
});

/** Replicas at the loopback's addresses, each with what it answers. */
async function asked(answers: Readonly<Record<string, unknown>>) {
  const servers = [];
  let port = 0;
  for (const [address, answer] of Object.entries(answers)) {
    const server = createServer((_, response) => {
      response.writeHead(answer === undefined ? 403 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer ?? { error: { code: 'unauthorized' } }));
    });
    await new Promise<void>((resolve) => server.listen(port, address, resolve));
    ({ port } = server.address() as AddressInfo);
    servers.push(server);
  }
  const calls = gatewayCalls({
    url: `http://egress-replicas.home-services.svc:${port}`,
    token: () => new Secret('spc_obs_x'),
    lookup: async () => Object.keys(answers),
    timeoutMs,
  });
  try {
    return await calls(assistant);
  } finally {
    for (const server of servers) server.close();
  }
}

test('the counts of all replicas are summed, with the last time of each kind of call', async () => {
  const at = (minute: number) => `2026-01-01T00:0${minute}:00Z`;
  const bank = { host: 'api.bank.org', input: 'bank', ending: 'ok', count: 2, last_at: at(3) };
  const told = (since: number, forgotten: number, ...calls: object[]) => ({
    ...{ instance: '0'.repeat(32), trace_id: '1'.repeat(32), since: at(since), forgotten, calls },
  });
  const found = await asked({
    '127.0.0.1': told(2, 1, bank, { ending: 'host_denied', count: 1, last_at: at(1) }),
    '127.0.0.2': told(1, 4, { ...bank, count: 5, last_at: at(2) }, { ...bank, input: 'other' }),
    '127.0.0.3': told(5, 0, { ending: 'host_denied', count: 1, last_at: at(4) }),
    '127.0.0.4': undefined,
  });
  expect(found).toStrictEqual({
    calls: [
      { ...bank, count: 7, last_at: at(3) },
      { ending: 'host_denied', count: 2, last_at: at(4) },
      { ...bank, input: 'other' },
    ],
    ...{ forgotten: 5, since: at(1), replicas: 4, silent: 1 },
  });
});

test('a replica that does not answer in time counts as silent', async () => {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const token = () => new Secret('spc_obs_x');
  const calls = gatewayCalls({ url: `http://127.0.0.1:${port}`, token, timeoutMs: 50 });
  expect(await calls(assistant)).toMatchObject({ replicas: 1, silent: 1 });
  server.closeAllConnections();
  server.close();
});

test('a name is resolved as it is, an address without its brackets, and both are called at the default port', async () => {
  const names: string[] = [];
  for (const url of ['http://[::1]:1', 'http://a.svc', 'http://a.svc:1']) {
    const lookup = async (host: string) => {
      names.push(host);
      throw new Error('nobody knows');
    };
    const calls = gatewayCalls({ url, token: () => new Secret('spc_obs_x'), lookup });
    expect(await calls(assistant)).toEqual({
      ...{ calls: [], forgotten: 0, since: undefined, replicas: 0, silent: 0 },
    });
  }
  expect(names).toEqual(['::1', 'a.svc', 'a.svc']);
});

test('each address of a name is called, verified by that name unless another is configured', async () => {
  const server = createServer((_, response) => response.writeHead(503).end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const token = () => new Secret('spc_obs_x');
  const calls = gatewayCalls({ url: `http://127.0.0.1:${port}`, token, timeoutMs });
  expect(await calls(assistant)).toMatchObject({ replicas: 1, silent: 1 });
  server.close();
});
