import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Secret } from '@space/broker-kit';
import { expect, test } from 'vitest';
import { gatewayCalls } from './calls.ts';

const assistant = { metadata: { uid: 'u' }, spec: { capsule: 'home' } };

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
    });
    expect(await calls(assistant)).toMatchObject({ replicas: 1, silent: 1 });
    expect(hosts).toEqual([`${named}:${port}`]);
  } finally {
    server.close();
  }
});
