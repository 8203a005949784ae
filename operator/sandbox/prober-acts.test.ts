import { describe, expect, test, vi } from 'vitest';
import type { Context } from '../context.ts';
import { type Node, POD, type Pod, type Service } from '../kinds.ts';
import { ApiError } from '../runtime/errors.ts';
import { type KubeObject, makeKey } from '../runtime/kube-object.ts';
import type { Queue } from '../runtime/queue.ts';
import { makeStores } from '../stores.ts';
import { names } from '../testing/names.ts';
import { networkQuestion } from './network.ts';
import { probeName, probeObject, type Question, sandboxQuestion, waitingProbeObject } from './probe.ts';
import { connectProber, reconcileProbe } from './prober.ts';
import { Sightings } from './sightings.ts';

/** What is written for a node, and which changes have a node looked at again; what is planned is in `prober.test.ts`. */

const ANY = ':any';
const gvisor = { metadata: { name: 'gvisor' }, handler: 'runsc' };
const node: Node = {
  metadata: { name: 'n1', uid: 'u1' },
  spec: {},
  status: { conditions: [{ type: 'Ready', status: 'True' }], runtimeHandlers: [{ name: 'runsc' }] },
};
const service = (component: string): Service => ({
  metadata: {
    ...{ name: component, namespace: 'home-services' },
    labels: { 'platform.space/space': 'home', 'platform.space/component': component },
  },
  spec: { clusterIP: '10.0.0.7', clusterIPs: ['10.0.0.7'] },
});
const sandbox = sandboxQuestion(names);
const probe = (phase: string, question: Question = sandbox): Pod => {
  const { metadata, spec } = probeObject(question, node) as unknown as Required<Pod>;
  const of = `${metadata.name}-uid`;
  return {
    metadata: { ...metadata, uid: of, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { ...spec, nodeName: 'n1' },
    status: { phase },
  };
};
/** A tenant's pod that has found itself outside the sandbox. */
const outside: Pod = {
  metadata: {
    name: 'ledger-1',
    namespace: 'home-household',
    uid: 'ledger-1',
    creationTimestamp: '2026-02-02T00:00:00Z',
  },
  spec: { nodeName: 'n1' },
  status: {
    phase: 'Pending',
    initContainerStatuses: [{ name: 'attest', state: { terminated: { exitCode: 1 } } }],
  },
};

describe('reconciling', () => {
  function world(...pods: readonly Pod[]) {
    const stores = makeStores();
    stores.runtimeClasses.set(gvisor);
    stores.nodes.set(node);
    for (const pod of pods) stores.pods.set(pod);
    let now = 0;
    const sightings = new Sightings(() => now);
    for (const pod of pods) sightings.note(pod, true);
    const writer = { remove: vi.fn(async () => undefined), create: vi.fn(async () => undefined as unknown) };
    const context = { names, stores, writer, sweepMs: () => 10_000 } as unknown as Context;
    const { signal } = new AbortController();
    return {
      ...{ stores, writer },
      reconcile: (key = 'n1', after = 0) => {
        now += after;
        return reconcileProbe(context, sightings, key as never, signal);
      },
      made: () => writer.create.mock.calls.map((call: unknown[]) => (call[1] as KubeObject).metadata.name),
      removed: () => writer.remove.mock.calls.map((call: unknown[]) => (call[1] as KubeObject).metadata.name),
    };
  }
  const network = () => {
    const stores = makeStores();
    for (const one of ['canary', 'postgres']) stores.services.set(service(one));
    return networkQuestion(names, stores) as Question;
  };

  test('a node without a probe creates one, which the operator owns', async () => {
    const { stores, writer, reconcile, removed } = world();
    const metadata = { name: 'home-operator', namespace: 'home-system', uid: 'o1' };
    stores.deployments.set({ metadata });
    expect(await reconcile()).toEqual({});
    expect(writer.create.mock.calls.map((call: unknown[]) => call.slice(0, 2))).toEqual([
      [POD, probeObject(sandbox, node, { metadata })],
    ]);
    expect(removed()).toEqual([]);
  });

  test('a node creates one for its network, too, if the Services that probes connect to exist', async () => {
    const { stores, reconcile, made } = world();
    for (const one of ['canary', 'postgres']) stores.services.set(service(one));
    await reconcile();
    expect(made().toSorted()).toEqual([probeName(network(), node), probeName(sandbox, node)]);
  });

  test('a node that is deleted creates none, and deletes its probes', async () => {
    const { stores, reconcile, made, removed } = world(probe('Succeeded'));
    stores.nodes.delete(makeKey(undefined, 'n1'), node);
    await reconcile();
    expect([made(), removed()]).toEqual([[], [probeName(sandbox, node)]]);
  });

  test('a node that has its probes creates nothing', async () => {
    const { reconcile, made, removed } = world(probe('Succeeded'));
    expect(await reconcile()).toEqual({});
    expect([made(), removed()]).toEqual([[], []]);
  });

  test('a node on which a pod was outside the sandbox is probed again', async () => {
    const { reconcile, removed } = world(probe('Succeeded'), outside);
    await reconcile();
    expect(removed()).toEqual([probeName(sandbox, node)]);
  });

  test('a network is probed again after six sweeps, and the next reconcile is at the earliest due time', async () => {
    const { stores, reconcile, removed } = world(probe('Failed'), probe('Succeeded', network()));
    for (const one of ['canary', 'postgres']) stores.services.set(service(one));
    expect(await reconcile()).toEqual({ requeueAfterMs: 30_000 });
    expect(await reconcile('n1', 20_000)).toEqual({ requeueAfterMs: 10_000 });
    expect(removed()).toEqual([]);
    expect(await reconcile('n1', 10_000)).toEqual({ requeueAfterMs: 30_000 });
    expect(removed()).toEqual([probeName(sandbox, node)]);
    await reconcile('n1', 30_000);
    expect(removed()).toContain(probeName(network(), node));
  });

  test('a probe that exists already is accepted, and any other refusal is reported', async () => {
    const { writer, reconcile } = world();
    const refusal = (reason: string) => new ApiError({ status: 409, reason, message: reason });
    writer.create.mockRejectedValueOnce(refusal('AlreadyExists'));
    expect(await reconcile()).toEqual({});
    writer.create.mockRejectedValueOnce(refusal('Conflict'));
    await expect(reconcile()).rejects.toThrow('Conflict');
  });

  test('a probe for any node is created if no node can be probed, and removed once one can', async () => {
    const { stores, reconcile, made, removed } = world();
    expect(await reconcile(ANY)).toStrictEqual({});
    expect(made()).toEqual([]);
    stores.nodes.delete(makeKey(undefined, 'n1'), node);
    await reconcile(ANY);
    const waiting = waitingProbeObject(names) as unknown as Pod;
    expect(made()).toEqual([waiting.metadata.name]);
    stores.pods.set(waiting);
    stores.nodes.set({ ...node, metadata: { name: 'n2', uid: 'u2' } });
    await reconcile(ANY);
    expect(removed()).toEqual([waiting.metadata.name]);
  });
});

describe('a change', () => {
  function connected() {
    const stores = makeStores();
    const added: string[] = [];
    const queue = { add: (key: string, priority = 'live') => added.push(`${key} ${priority}`) };
    const sightings = { note: vi.fn() };
    stores.nodes.set(node);
    stores.nodes.set({ ...node, metadata: { name: 'n2', uid: 'u2' } });
    connectProber(stores, queue as unknown as Queue, sightings as unknown as Sightings);
    const after = (act: () => void) => {
      added.length = 0;
      act();
      return added.toSorted();
    };
    return { stores, sightings, after };
  }
  const key = (pod: Pod) => makeKey(pod.metadata.namespace, pod.metadata.name);

  test('of a node reconciles it, and the probe for any node', () => {
    const { stores, after } = connected();
    const other = { ...node, metadata: { name: 'n3', uid: 'u3' } };
    expect(after(() => stores.nodes.set(other))).toEqual([`${ANY} live`, 'n3 live']);
    const listed = { ...node, metadata: { name: 'n4', uid: 'u4' } };
    expect(after(() => stores.nodes.set(listed, 'list'))).toEqual([`${ANY} low`, 'n4 low']);
  });

  test('of a class, or of a Service that probes connect to, reconciles every node', () => {
    const { stores, after } = connected();
    expect(after(() => stores.runtimeClasses.set(gvisor))).toEqual([`${ANY} live`, 'n1 live', 'n2 live']);
    const canary = service('canary');
    expect(after(() => stores.services.set(canary))).toEqual(['n1 live', 'n2 live']);
    expect(after(() => stores.services.delete(makeKey('home-services', 'canary'), canary))).toEqual([
      ...['n1 live', 'n2 live'],
    ]);
    expect(after(() => stores.services.set(service('other')))).toEqual([]);
  });

  test('of a pod reconciles the node that it probes, or on which it was outside the sandbox', () => {
    const { stores, after } = connected();
    const waiting = waitingProbeObject(names) as unknown as Pod;
    expect(after(() => stores.pods.set(probe('Pending')))).toEqual(['n1 live']);
    expect(after(() => stores.pods.delete(key(probe('Pending')), probe('Pending')))).toEqual(['n1 live']);
    expect(after(() => stores.pods.set(outside))).toEqual(['n1 live']);
    expect(after(() => stores.pods.set(waiting))).toEqual([`${ANY} live`]);
    const inside = { ...outside, metadata: { name: 'other', namespace: 'a' }, status: { phase: 'Running' } };
    expect(after(() => stores.pods.set(inside))).toEqual([]);
  });

  test('of a pod outside the sandbox is remembered for as long as the pod exists', () => {
    const { stores, sightings } = connected();
    const inside = { ...outside, metadata: { name: 'other', namespace: 'a' }, status: { phase: 'Running' } };
    const noted = (act: () => void) => {
      sightings.note.mockClear();
      act();
      return sightings.note.mock.calls.map(([pod, counts]) => [pod.metadata.name, counts]);
    };
    const one = probe('Pending');
    expect(noted(() => stores.pods.set(one))).toEqual([[one.metadata.name, true]]);
    expect(noted(() => stores.pods.set(outside))).toEqual([['ledger-1', true]]);
    expect(noted(() => stores.pods.set(inside))).toEqual([['other', false]]);
    expect(noted(() => stores.pods.delete(key(one), one))).toEqual([[one.metadata.name, false]]);
    expect(noted(() => stores.pods.delete(key(outside), outside))).toEqual([['ledger-1', false]]);
  });
});
