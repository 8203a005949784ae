import { describe, expect, test } from 'vitest';
import type { Node, Pod, Service } from '../kinds.ts';
import { systemClock } from '../runtime/clock.ts';
import { type KubeObject, makeKey } from '../runtime/kube-object.ts';
import { makeStores, type Stores } from '../stores.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { names } from '../testing/names.ts';
import { networkQuestion } from './network.ts';
import { probeObject, type Question, sandboxQuestion } from './probe.ts';
import { type GateReflectors, watchGate, watchNetwork } from './watch.ts';

const node = (name: string, handler = 'runsc'): Node => ({
  metadata: { name, uid: name },
  spec: {},
  status: { conditions: [{ type: 'Ready', status: 'True' }], runtimeHandlers: [{ name: handler }] },
});
const probe = (of: Node, phase: string, question: Question = sandboxQuestion(names)): Pod => {
  const { metadata, spec } = probeObject(question, of) as unknown as Required<Pod>;
  return { metadata, spec: { ...spec, nodeName: of.metadata.name }, status: { phase } };
};
const current = { health: 'current' };
const reflectors = { nodes: current, runtimeClasses: current, pods: current } as unknown as GateReflectors;

test('has the probe result of each node that the class selects, and of no other', () => {
  const stores = makeStores();
  const gate = watchGate({ names, stores, reflectors, clock: systemClock }, () => {});
  expect(gate.proofs()).toEqual([]);
  const [good, bad, fresh] = [node('good'), node('bad'), node('fresh')];
  for (const one of [good, bad, fresh, node('without', 'runc')]) stores.nodes.set(one);
  stores.pods.set(probe(good, 'Succeeded'));
  stores.pods.set(probe(bad, 'Failed'));
  expect(gate.proofs()).toEqual([]);
  stores.runtimeClasses.set({ metadata: { name: 'gvisor' }, handler: 'runsc' });
  expect([...gate.proofs()].sort()).toEqual(['failed', 'passed', 'untried']);
  // One good node is enough for the gate; the others are for the metrics.
  expect(gate.now().status).toBe('True');
});

test('a store that is not current closes the gate at once, and is reported if that lasts', () => {
  const stores = makeStores();
  const good = node('good');
  stores.nodes.set(good);
  stores.pods.set(probe(good, 'Succeeded'));
  stores.runtimeClasses.set({ metadata: { name: 'gvisor' }, handler: 'runsc' });
  const clock = fakeClock();
  const nodes = { health: 'current' };
  const told: string[] = [];
  const watched = { ...reflectors, nodes } as unknown as GateReflectors;
  const gate = watchGate({ names, stores, reflectors: watched, clock }, ({ reason }) => told.push(reason));
  const become = (health: string) => {
    nodes.health = health;
    gate.check();
    return gate.now().reason;
  };
  expect(become('failing')).toBe('ClusterUnreadable');
  clock.advance(9_000);
  expect(told).toEqual([]);
  // A reconcile in the meantime has to be repeated.
  expect(become('current')).toBe('SandboxAvailable');
  clock.advance(60_000);
  expect(told).toEqual(['SandboxAvailable']);
  become('failing');
  clock.advance(10_000);
  expect(told).toEqual(['SandboxAvailable', 'ClusterUnreadable']);
  // A loss in the meantime is reported without delay.
  stores.runtimeClasses.delete('gvisor', { metadata: { name: 'gvisor' }, handler: 'runsc' });
  expect(become('current')).toBe('RuntimeClassNotFound');
  expect(told.at(-1)).toBe('RuntimeClassNotFound');
});

const service = (component: string): Service => ({
  metadata: {
    ...{ name: component, namespace: 'home-services' },
    labels: { 'platform.space/space': 'home', 'platform.space/component': component },
  },
  spec: { clusterIP: '10.0.0.7', clusterIPs: ['10.0.0.7'] },
});
const services = [service('canary'), service('postgres')];
const gvisor = { metadata: { name: 'gvisor' }, handler: 'runsc' };
let version = 0;
/** The object as it is from now on. */
const fresh = <T extends KubeObject>(object: T): T => {
  version += 1;
  return { ...object, metadata: { ...object.metadata, resourceVersion: `${version}` } };
};
const take = (stores: Stores, pod: Pod) =>
  stores.pods.delete(makeKey(pod.metadata.namespace, pod.metadata.name), fresh(pod));

/** The watcher, the number of its reads of the stores so far, and what it reported. */
function watching(which: 'gate' | 'network', stores: Stores) {
  const told: string[] = [];
  let looks = 0;
  const list = stores.nodes.list.bind(stores.nodes);
  stores.nodes.list = () => {
    looks += 1;
    return list();
  };
  const onChange = ({ reason }: { reason: string }) => told.push(reason);
  const watch =
    which === 'gate'
      ? watchGate({ names, stores, reflectors, clock: systemClock }, onChange)
      : watchNetwork({ names, stores }, onChange);
  return { watch, told, looks: () => looks };
}

describe.each(['gate', 'network'] as const)('the %s', (which) => {
  const good = node('good');
  const all = makeStores();
  for (const one of services) all.services.set(one);
  const question = which === 'gate' ? sandboxQuestion(names) : networkQuestion(names, all);
  const [passed, failed] = ['Succeeded', 'Failed'].map((phase) => probe(good, phase, question)) as [Pod, Pod];
  const ready = { gate: 'SandboxAvailable', network: 'Ready' }[which];

  test('reports each changed verdict once, whatever changed it', () => {
    const stores = makeStores();
    const { watch, told } = watching(which, stores);
    for (const one of services) stores.services.set(fresh(one));
    stores.runtimeClasses.set(fresh(gvisor));
    stores.nodes.set(fresh(good));
    const before = told.length;
    stores.pods.set(fresh(passed));
    expect(told.slice(before)).toEqual([ready]);
    expect(watch.now()).toMatchObject({ reason: ready, status: 'True' });
    // Nothing else has changed.
    stores.nodes.set(fresh({ ...good, metadata: { ...good.metadata, labels: { a: 'b' } } }));
    stores.runtimeClasses.set(fresh(gvisor));
    expect(told.slice(before)).toEqual([ready]);
    stores.nodes.delete('good', fresh(good));
    expect(told.length).toBe(before + 2);
    expect(watch.now().status).not.toBe('True');
  });

  test('reads probes again when one is created or deleted, and for no other pod', () => {
    const stores = makeStores();
    const { looks } = watching(which, stores);
    for (const one of services) stores.services.set(fresh(one));
    stores.runtimeClasses.set(fresh(gvisor));
    stores.nodes.set(fresh(good));
    const change = (act: () => void) => {
      const before = looks();
      act();
      return looks() - before;
    };
    expect(change(() => stores.pods.set(fresh(passed)))).toBe(1);
    expect(change(() => take(stores, passed))).toBe(1);
    const other: Pod = { ...passed, metadata: { name: 'other', namespace: 'home-system' } };
    expect(change(() => stores.pods.set(fresh(other)))).toBe(0);
    expect(change(() => take(stores, other))).toBe(0);
    expect(change(() => stores.runtimeClasses.set(fresh(gvisor)))).toBe(1);
  });

  test('remembers a failure while the probe is retried, until the node is deleted', () => {
    const stores = makeStores();
    const { watch } = watching(which, stores);
    for (const one of services) stores.services.set(fresh(one));
    stores.runtimeClasses.set(fresh(gvisor));
    stores.nodes.set(fresh(good));
    stores.pods.set(fresh(failed));
    expect(watch.proofs()).toEqual(['failed']);
    take(stores, failed);
    stores.nodes.set(fresh({ ...good, metadata: { ...good.metadata, labels: { a: 'b' } } }));
    expect(watch.proofs()).toEqual(['failed']);
    stores.nodes.delete('good', fresh(good));
    stores.nodes.set(fresh(good));
    expect(watch.proofs()).toEqual(['untried']);
  });

  test('has results of nodes that the class selects, and of no others', () => {
    const stores = makeStores();
    const { watch } = watching(which, stores);
    for (const one of services) stores.services.set(fresh(one));
    stores.nodes.set(fresh(good));
    stores.nodes.set(fresh(node('without', 'runc')));
    expect(watch.proofs()).toEqual([]);
    stores.runtimeClasses.set(fresh({ ...gvisor, handler: 'runc' }));
    expect(watch.proofs()).toEqual([]);
    stores.runtimeClasses.set(fresh(gvisor));
    expect(watch.proofs()).toEqual(['untried']);
  });
});

test('network policies that were proved on a node count as proved while the probe is repeated', () => {
  const stores = makeStores();
  const { watch } = watching('network', stores);
  for (const one of services) stores.services.set(fresh(one));
  stores.runtimeClasses.set(fresh(gvisor));
  const good = node('good');
  stores.nodes.set(fresh(good));
  const passed = probe(good, 'Succeeded', networkQuestion(names, stores));
  stores.pods.set(fresh(passed));
  take(stores, passed);
  expect(watch.now().status).toBe('True');
});

test('without a Service that probes connect to nothing is known about network policies, and no probe is read', () => {
  const stores = makeStores();
  stores.runtimeClasses.set(fresh(gvisor));
  stores.nodes.set(fresh(node('good')));
  const { watch, told, looks } = watching('network', stores);
  expect(watch.proofs()).toEqual([]);
  for (const one of services) stores.services.set(fresh(one));
  expect(watch.proofs()).toEqual(['untried']);
  expect(told).toHaveLength(1);
  const before = looks();
  stores.services.set(fresh(service('other')));
  expect(looks()).toBe(before);
  stores.services.delete(makeKey('home-services', 'canary'), fresh(services[0] as Service));
  expect(watch.proofs()).toEqual([]);
  expect(told).toHaveLength(2);
});
