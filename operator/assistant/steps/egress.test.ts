import { expect, test } from 'vitest';
import type { Context } from '../../context.ts';
import { ANNOTATION, LABEL } from '../../names.ts';
import { makeKey } from '../../runtime/kube-object.ts';
import { makeStores } from '../../stores.ts';
import { manifest } from '../../testing/manifest.ts';
import { announceAddresses } from './egress.ts';

const MANIFEST = { id: 'ledger', version: '1.0.0', digest: '' };

test.each<[string, object | undefined, string, string[]]>([
  ['that of its manifest at first', undefined, 'books', ['10.1.0.2']],
  ['that of its status, whatever the manifest says now', MANIFEST, 'ledger', ['10.1.0.1']],
])('addresses are announced of the id that an Assistant has: %s', async (_, known, id, addresses) => {
  const stores = makeStores();
  stores.assistants.set({
    metadata: { name: 'house', namespace: 'home', uid: 'u', resourceVersion: '1' },
    spec: { capsule: 'a', image: 'i', manifest: manifest('books') },
    status: known && { manifest: known },
  } as never);
  const pod = (name: string, podIP: string) => ({
    metadata: {
      ...{ name, namespace: 'home-a', uid: name, resourceVersion: '2' },
      labels: { [LABEL.capsule]: 'a', [LABEL.assistant]: name },
      annotations: { [ANNOTATION.owner]: 'u' },
    },
    status: { phase: 'Running', podIP },
  });
  stores.pods.set(pod('ledger', '10.1.0.1') as never);
  stores.pods.set(pod('books', '10.1.0.2') as never);
  const told: unknown[] = [];
  const context = {
    stores,
    gateways: {
      announce: async (about: object, now: () => readonly string[]) => {
        told.push({ about, now: now() });
      },
    },
  } as unknown as Context;
  await announceAddresses(context, makeKey('home', 'house'), new AbortController().signal);
  expect(told).toEqual([{ about: { capsule_id: 'a', app_id: id, assistant_uid: 'u' }, now: addresses }]);
});
