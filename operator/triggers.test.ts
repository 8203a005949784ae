import { expect, test } from 'vitest';
import { ANNOTATION, LABEL } from './names.ts';
import { systemClock } from './runtime/clock.ts';
import { makeKey } from './runtime/kube-object.ts';
import { Queue } from './runtime/queue.ts';
import { makeStores } from './stores.ts';
import { manifest } from './testing/manifest.ts';
import { connectTriggers } from './triggers.ts';

const queue = () => new Queue({ clock: systemClock });
const someQueues = () => ({
  ...{ capsules: queue(), assistants: queue(), roles: queue() },
  ...{ gateways: queue(), addresses: queue() },
});

const capsule = (name: string, resourceVersion: string) => ({
  metadata: { name, namespace: 'home', uid: name, resourceVersion },
  spec: {},
});

test('a change of the gate has a lower priority than changes of users, except if pods must stop', async () => {
  const stores = makeStores();
  const queues = someQueues();
  const triggers = connectTriggers('home', stores, queues);
  const next = async () => {
    const key = await queues.capsules.take();
    if (key !== undefined) queues.capsules.done(key);
    return key;
  };
  stores.capsules.replace([capsule('a', '1'), capsule('b', '2'), capsule('c', '3')]);

  triggers.everything('low');
  stores.capsules.set(capsule('c', '4'));
  expect([await next(), await next(), await next()]).toEqual(['home/c', 'home/a', 'home/b']);

  stores.capsules.set(capsule('c', '5'));
  triggers.everything('live');
  expect([await next(), await next(), await next()]).toEqual(['home/c', 'home/a', 'home/b']);
  expect(queues.capsules.depth).toBe(0);
  queues.capsules.close();
  queues.assistants.close();
  queues.gateways.close();
  queues.roles.close();
});

test('the event of an own write is as urgent as the reconcile that wrote it, and a user’s change in the meantime is urgent', async () => {
  const stores = makeStores();
  const queues = someQueues();
  connectTriggers('home', stores, queues);
  const { capsules } = queues;
  stores.capsules.replace([capsule('a', '1'), capsule('b', '2')]);
  const told = (name: string, resourceVersion: string, generation: number) => ({
    ...capsule(name, resourceVersion),
    metadata: { ...capsule(name, resourceVersion).metadata, generation },
  });
  const quota = {
    metadata: {
      name: 'q',
      namespace: 'c-a',
      uid: 'q',
      resourceVersion: '3',
      labels: { [LABEL.capsule]: 'a' },
    },
  };

  expect(await capsules.take()).toBe('home/a');
  stores.resourceQuotas.set(quota, 'own');
  stores.capsules.set(capsule('a', '4'), 'own');
  capsules.done('home/a');
  expect([await capsules.take(), await capsules.take()]).toEqual(['home/b', 'home/a']);
  expect(capsules.running('home/a')).toBe('low');

  stores.capsules.set(told('a', '5', 2), 'own');
  capsules.done('home/a');
  await capsules.take();
  expect(capsules.running('home/a')).toBe('live');

  // Somebody else changed it: it is not being reconciled, so this operator did not write it.
  capsules.done('home/b');
  stores.resourceQuotas.set({
    ...quota,
    metadata: { ...quota.metadata, resourceVersion: '6', labels: { [LABEL.capsule]: 'b' } },
  });
  await capsules.take();
  expect(capsules.running('home/b')).toBe('live');
  capsules.close();
  queues.assistants.close();
  queues.gateways.close();
  queues.roles.close();
});

test('each start of a gateway’s replica triggers a reconcile, ready or not, as soon as it listens', async () => {
  const stores = makeStores();
  const queues = someQueues();
  connectTriggers('home', stores, queues);
  const { gateways } = queues;
  const pod = (resourceVersion: string, containerID: string, started: boolean, component = 'egress') => ({
    metadata: {
      name: component,
      namespace: 'services',
      uid: component,
      resourceVersion,
      labels: { [LABEL.component]: component },
    },
    status: {
      phase: 'Running',
      podIP: '10.0.0.1',
      conditions: [{ type: 'Ready', status: 'False' }],
      containerStatuses: [{ name: 'egress', containerID, started }],
    },
  });
  const taken = async () => {
    const key = await gateways.take();
    if (key !== undefined) gateways.done(key);
    return key;
  };
  stores.pods.set(pod('1', 'a', false));
  expect(gateways.depth).toBe(0);
  stores.pods.set(pod('2', 'a', true));
  expect(await taken()).toBe('services/egress');
  stores.pods.set(pod('3', 'a', true));
  stores.pods.set(pod('4', 'a', true, 'db-broker'));
  expect(gateways.depth).toBe(0);
  stores.pods.set(pod('5', 'b', true));
  expect(await taken()).toBe('services/egress');
  for (const queue of Object.values(queues)) queue.close();
});

test.each(['postgres', 'objectstore', 'egress'])(
  'another address of the Service of %s triggers a reconcile of every Assistant, and no other change of it does',
  async (component) => {
    const stores = makeStores();
    const queues = someQueues();
    connectTriggers('home', stores, queues);
    const { assistants } = queues;
    const next = async () => {
      const key = await assistants.take();
      if (key !== undefined) assistants.done(key);
      return key;
    };
    const service = (resourceVersion: string, clusterIP: string, ...others: string[]) => ({
      metadata: {
        name: component,
        namespace: 'services',
        uid: component,
        resourceVersion,
        labels: { [LABEL.component]: component },
      },
      spec: { clusterIP, clusterIPs: [clusterIP, ...others] },
    });
    stores.services.replace([service('1', '10.96.0.1')]);
    stores.assistants.set({
      ...capsule('ledger', '2'),
      spec: { capsule: 'a', image: 'i', manifest: manifest('ledger') },
    });
    expect(await next()).toBe('home/ledger');
    stores.services.set(service('3', '10.96.0.1'));
    expect(assistants.depth).toBe(0);
    stores.services.set(service('4', '10.96.0.2'));
    expect(assistants.depth).toBe(1);
    await next();
    stores.services.set(service('5', '10.96.0.2', 'fd00::2'));
    expect(assistants.depth).toBe(1);
    for (const queue of Object.values(queues)) queue.close();
  },
);

test('the gateway is told where an Assistant’s pods are when one comes, moves or goes, and not of their other changes', async () => {
  const stores = makeStores();
  const queues = someQueues();
  stores.assistants.replace([
    {
      metadata: { name: 'books', namespace: 'home', uid: 'u', resourceVersion: '1' },
      spec: { capsule: 'a', image: 'i', manifest: manifest('ledger') },
    } as never,
  ]);
  connectTriggers('home', stores, queues);
  let version = 1;
  const pod = (podIP: string | undefined, phase = 'Pending', annotations = { [ANNOTATION.owner]: 'u' }) => {
    version += 1;
    const labels = { [LABEL.space]: 'home', [LABEL.capsule]: 'a', [LABEL.assistant]: 'ledger' };
    const metadata = { name: 'p', namespace: 'home-a', uid: 'p', resourceVersion: String(version) };
    return { metadata: { ...metadata, labels, annotations }, status: { phase, ...(podIP ? { podIP } : {}) } };
  };
  const isTold = async () => {
    if (queues.addresses.depth === 0) return false;
    const key = await queues.addresses.take();
    if (key !== undefined) queues.addresses.done(key);
    return key === 'home/books';
  };
  const told: boolean[] = [];
  for (const one of [
    pod(undefined),
    pod('10.1.0.1'),
    pod('10.1.0.1', 'Running'),
    pod('10.1.0.2', 'Running'),
  ]) {
    stores.pods.set(one as never);
    told.push(await isTold());
  }
  stores.pods.set(pod('10.1.0.2', 'Running', { [ANNOTATION.owner]: 'another' }) as never);
  told.push(await isTold());
  stores.pods.set(pod('10.1.0.2', 'Failed') as never);
  told.push(await isTold());
  stores.pods.set(pod('10.1.0.3') as never);
  told.push(await isTold());
  stores.pods.delete(makeKey('home-a', 'p'));
  told.push(await isTold());
  expect(told).toEqual([true, true, false, true, true, true, true, true]);
  for (const queue of Object.values(queues)) queue.close();
});

test('pods of the id that an Assistant has concern it while its manifest names another', async () => {
  const stores = makeStores();
  const queues = someQueues();
  stores.assistants.replace([
    {
      metadata: { name: 'house', namespace: 'home', uid: 'u', resourceVersion: '1' },
      spec: { capsule: 'a', image: 'i', manifest: manifest('books') },
      status: { manifest: { id: 'ledger', version: '1.0.0', digest: '' } },
    } as never,
  ]);
  connectTriggers('home', stores, queues);
  stores.pods.set({
    metadata: {
      ...{ name: 'p', namespace: 'home-a', uid: 'p', resourceVersion: '2' },
      labels: { [LABEL.space]: 'home', [LABEL.capsule]: 'a', [LABEL.assistant]: 'ledger' },
      annotations: { [ANNOTATION.owner]: 'u' },
    },
    status: { phase: 'Running', podIP: '10.1.0.1' },
  } as never);
  expect([queues.addresses.depth, queues.assistants.depth]).toEqual([1, 1]);
  expect(await queues.addresses.take()).toBe('home/house');
  expect(await queues.assistants.take()).toBe('home/house');
  for (const queue of Object.values(queues)) queue.close();
});
