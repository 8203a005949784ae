import { addressGuard, cached, dnsResolve } from '@space/broker-kit';
import { expect, it } from 'vitest';
import { startDns } from '../testing/dns.ts';
import { makeGateway } from '../testing/gateway.ts';

it('a host with thousands of addresses is asked for once, and none of them is judged', async () => {
  const addresses = Array.from({ length: 2_000 }, (_, at) => `93.184.${at >> 8}.${at & 255}`);
  let asked = 0;
  const dns = await startDns((_, type) => {
    if (type === 'A') asked += 1;
    return { addresses };
  });
  let judged = 0;
  const guard = {
    permits: (address: string) => {
      judged += 1;
      return addressGuard().permits(address);
    },
  };
  const test = await makeGateway({ resolve: cached(dnsResolve([dns.address])), guard });
  try {
    await test.put({ allowed_hosts: ['many.bank.org'] });
    for (let tunnel = 0; tunnel < 3; tunnel += 1) {
      const { head, socket } = await test.tunnel('many.bank.org:443');
      socket.destroy();
      expect(head).toContain('name_unresolved');
    }
    expect([asked, judged]).toEqual([1, 0]);
  } finally {
    await test.close();
    await dns.close();
  }
});
