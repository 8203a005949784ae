import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Secret } from '@space/contracts/secret';
import { expect, test } from 'vitest';
import { type Replica, ReplicaError, replicaCaller } from './replica.ts';

const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'u' };
const at = (address: string): Replica => ({ key: 'pod/1', address, pod: 'pod', serving: true, lost: false });

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::1', '[::1]'],
])('a replica is called at %s, and sent the address that it is called by', async (address, named) => {
  let host: string | undefined;
  const server = createServer((request, response) => {
    host = request.headers.host;
    response.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const call = replicaCaller({ port, token: async () => new Secret('spc_prv_x') });
    const signal = AbortSignal.timeout(5_000);
    await expect(call(at(address), 'policy.remove', about, signal)).rejects.toThrow(ReplicaError);
    expect(host).toBe(`${named}:${port}`);
  } finally {
    server.close();
  }
});
