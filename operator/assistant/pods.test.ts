import { expect, test } from 'vitest';
import type { Pod } from '../kinds.ts';
import { addressesOfPods } from './pods.ts';

const pod = (status: Pod['status'] & object): Pod => ({
  metadata: { name: 'ledger', namespace: 'c' },
  status,
});

test('a pod’s addresses are those of both families, by either of which it may call', () => {
  const [v4, v6] = ['10.1.0.7', 'fd00:10:1::7'];
  expect(
    addressesOfPods([
      pod({ podIP: v6, podIPs: [{ ip: v6 }, { ip: v4 }] }),
      pod({ podIP: '10.1.0.5', podIPs: [{ ip: '10.1.0.5' }] }),
      // An API server reports the first address before the others.
      pod({ podIP: '10.1.0.6' }),
      pod({ phase: 'Pending' }),
    ]),
  ).toEqual(['10.1.0.5', '10.1.0.6', v4, v6]);
});

test('a pod that has ended has no address, since another pod may have it by now', () => {
  const pods = ['Failed', 'Succeeded', 'Running', 'Unknown'].map((phase, at) =>
    pod({ phase, podIP: `10.1.0.${at}`, podIPs: [{ ip: `10.1.0.${at}` }] }),
  );
  expect(addressesOfPods(pods)).toEqual(['10.1.0.2', '10.1.0.3']);
});
