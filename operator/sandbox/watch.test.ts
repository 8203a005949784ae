import { expect, test } from 'vitest';
import type { Node, Pod } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import { systemClock } from '../runtime/clock.ts';
import { makeStores } from '../stores.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { probeObject, sandboxQuestion } from './probe.ts';
import { type GateReflectors, watchGate } from './watch.ts';

const names: SpaceNames = {
  space: 'home',
  namespace: 'home',
  systemNamespace: 'home-system',
  servicesNamespace: 'home-services',
  runtimeClass: 'gvisor',
  handler: 'runsc',
  attesterImage: 'registry.test/attester:1',
  handlerReport: 'node',
  onLoss: 'keep',
  graceMs: 0,
};
const node = (name: string, handler = 'runsc'): Node => ({
  metadata: { name, uid: name },
  spec: {},
  status: { conditions: [{ type: 'Ready', status: 'True' }], runtimeHandlers: [{ name: handler }] },
});
const probe = (of: Node, phase: string): Pod => {
  const { metadata, spec } = probeObject(sandboxQuestion(names), of) as unknown as Required<Pod>;
  return { metadata, spec: { ...spec, nodeName: of.metadata.name }, status: { phase } };
};
const current = { health: 'current' };
const reflectors = { nodes: current, runtimeClasses: current, pods: current } as unknown as GateReflectors;

test('says of each node that the class could bring a pod to what its probe has shown, and of no other', () => {
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
  // One good node is enough for the gate; the others are for whoever watches the figures.
  expect(gate.now().status).toBe('True');
});

test('a blindness closes the gate at once, and is told when it lasts', () => {
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
  // Whoever looked meanwhile has to look again.
  expect(become('current')).toBe('SandboxAvailable');
  clock.advance(60_000);
  expect(told).toEqual(['SandboxAvailable']);
  become('failing');
  clock.advance(10_000);
  expect(told).toEqual(['SandboxAvailable', 'ClusterUnreadable']);
  // What was lost meanwhile is told without delay.
  stores.runtimeClasses.delete('gvisor', { metadata: { name: 'gvisor' }, handler: 'runsc' });
  expect(become('current')).toBe('RuntimeClassNotFound');
  expect(told.at(-1)).toBe('RuntimeClassNotFound');
});
