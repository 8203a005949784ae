import { describe, expect, test } from 'vitest';
import type { Service } from './kinds.ts';
import { addressesOf, makeStores } from './stores.ts';
import { names } from './testing/names.ts';

const service = (name: string, clusterIP: string): Service => ({
  metadata: {
    name,
    namespace: names.servicesNamespace,
    labels: { 'platform.space/space': names.space, 'platform.space/component': 'egress' },
  },
  spec: { clusterIP, clusterIPs: [clusterIP] },
});

describe('the address of a component', () => {
  test.each([
    ['first', ['egress-replicas', 'platform-assistant-egress']],
    ['last', ['platform-assistant-egress', 'egress-replicas']],
  ])('is that of its Service, also if a headless one is listed %s', (_place, order) => {
    const { services } = makeStores();
    for (const name of order) services.set(service(name, name === 'egress-replicas' ? 'None' : '10.0.0.9'));
    expect(addressesOf(names, services, 'egress')).toEqual(['10.0.0.9']);
  });

  test('does not exist while there is only a headless Service', () => {
    const { services } = makeStores();
    services.set(service('egress-replicas', 'None'));
    expect(addressesOf(names, services, 'egress')).toEqual([]);
  });
});
