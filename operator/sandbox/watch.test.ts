import { expect, test } from 'vitest';
import type { SpaceNames } from '../context.ts';
import type { Node, Pod } from '../kinds.ts';
import { makeStores } from '../stores.ts';
import { probeObject } from './probe.ts';
import { type GateReflectors, watchGate } from './watch.ts';

const names: SpaceNames = {
  space: 'home',
  namespace: 'home',
  servicesNamespace: 'home-services',
  runtimeClass: 'gvisor',
  handler: 'runsc',
  attesterImage: 'registry.test/attester:1',
  handlerReport: 'node',
  onLoss: 'keep',
};
const node = (name: string, handler = 'runsc'): Node => ({
  metadata: { name, uid: name },
  spec: {},
  status: { conditions: [{ type: 'Ready', status: 'True' }], runtimeHandlers: [{ name: handler }] },
});
const probe = (of: Node, phase: string): Pod => {
  const { metadata, spec } = probeObject(names, of) as unknown as Required<Pod>;
  return { metadata, spec: { ...spec, nodeName: of.metadata.name }, status: { phase } };
};
const current = { health: 'current' };
const reflectors = { nodes: current, runtimeClasses: current, pods: current } as unknown as GateReflectors;

test('says of each node that the class could bring a pod to what its probe has shown, and of no other', () => {
  const stores = makeStores();
  const gate = watchGate(names, stores, reflectors, () => {});
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
