import { describe, expect, test } from 'vitest';
import type { Node, Pod, RuntimeClass } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import { names } from '../testing/names.ts';
import { probeName, probeObject, proofOf, sandboxQuestion, waitingProbeObject } from './probe.ts';
import { type ProbeView, planProbe, planWaiting, RETRY_MS, type WaitingView } from './prober.ts';

const sandbox = sandboxQuestion(names);
const runtimeClass: RuntimeClass = { metadata: { name: 'gvisor' }, handler: 'runsc' };
const node: Node = {
  metadata: { name: 'n1', uid: 'u1' },
  status: {
    conditions: [{ type: 'Ready', status: 'True' }],
    runtimeHandlers: [{ name: 'runsc' }],
    nodeInfo: { bootID: 'b1', containerRuntimeVersion: 'containerd://2.1.0' },
  },
};
const having = (info: NonNullable<Node['status']>['nodeInfo']): Node => ({
  ...node,
  status: { ...node.status, nodeInfo: { ...node.status?.nodeInfo, ...info } },
});
const MADE = '2026-01-01T00:00:00Z';
/** As of one that the operator knew at once, and whose clock is the API server's. */
const at = (nowMs: number) => (pod: Pod) => nowMs - Date.parse(pod.metadata.creationTimestamp ?? '');

/** The pod as the cluster leaves it. */
function probe(status: Pod['status'], changes: { spec?: object; metadata?: object } = {}): Pod {
  const { metadata, spec } = probeObject(sandbox, node) as unknown as Required<Pod>;
  return {
    metadata: { ...metadata, creationTimestamp: MADE, ...changes.metadata },
    spec: { ...spec, nodeName: 'n1', ...changes.spec },
    ...(status ? { status } : {}),
  };
}
const attester = (state: object) => ({ containerStatuses: [{ name: 'attest', state }] });
const passed = { phase: 'Succeeded', ...attester({ terminated: { exitCode: 0 } }) };
const failed = {
  phase: 'Failed',
  ...attester({ terminated: { exitCode: 1, message: 'not in gVisor (kernel 6.1.0): log refused\n' } }),
};
const forged = (spec: object) => probe(passed, { spec });
const [container] = probe(undefined).spec?.containers ?? [];

describe('a probe', () => {
  test.each<[string, Node, SpaceNames]>([
    ['boot', having({ bootID: 'b2' }), names],
    ['runtime version', having({ containerRuntimeVersion: 'containerd://2.1.1' }), names],
    ['node of the same name', { ...node, metadata: { name: 'n1', uid: 'u2' } }, names],
    ['attester', node, { ...names, attesterImage: 'registry.test/attester:2' }],
    ['class', node, { ...names, runtimeClass: 'sandbox' }],
  ])('has another name for another %s', (_, other, otherNames) =>
    expect(probeName(sandboxQuestion(otherNames), other)).not.toBe(probeName(sandbox, node)),
  );

  test('holds no token, no mount and no network of its node, and runs in the class', () => {
    const { spec } = probeObject(sandbox, node) as unknown as { spec: Record<string, unknown> };
    expect(spec).toMatchObject({
      runtimeClassName: 'gvisor',
      automountServiceAccountToken: false,
      restartPolicy: 'Never',
      securityContext: { runAsNonRoot: true },
    });
    expect(spec).not.toHaveProperty('volumes');
    expect(spec).not.toHaveProperty('nodeName');
  });

  test.each<[string, Pod[], object]>([
    ['untried', [], {}],
    ['untried', [probe(passed, { metadata: { name: 'sandbox-probe-of-another-boot' } })], {}],
    ['untried', [probe(passed, { metadata: { deletionTimestamp: 'now' } })], {}],
    ['running', [probe(undefined)], {}],
    ['running', [probe({ phase: 'Pending', ...attester({ waiting: { reason: 'ContainerCreating' } }) })], {}],
    [
      'running',
      [probe({ phase: 'Pending', ...attester({ waiting: { reason: 'ImagePullBackOff' } }) })],
      { found: 'its image cannot be pulled' },
    ],
    ['passed', [probe(passed)], {}],
    ['failed', [probe(failed)], { found: 'not in gVisor (kernel 6.1.0): log refused', exitCode: 1 }],
    ['failed', [probe({ phase: 'Failed', reason: 'Evicted' })], { found: 'Evicted' }],
    [
      'failed',
      [probe({ phase: 'Failed', reason: 'DeadlineExceeded', message: 'Pod was active on the node longer' })],
      { found: expect.stringContaining('no end within 60 s') },
    ],
    [
      'running',
      [probe({ phase: 'Pending', conditions: [{ type: 'PodScheduled', status: 'False' }] })],
      { found: 'the scheduler does not assign its pod to that node' },
    ],
  ])('is %s if its pod reports that (%#)', (verdict, pods, more) =>
    expect(proofOf(sandbox, node, pods)).toEqual({ verdict, ...more }),
  );

  test.each<[string, Pod]>([
    ['runs on another node', forged({ nodeName: 'n2' })],
    ['runs without the class', forged({ runtimeClassName: undefined })],
    ['has another image', forged({ containers: [{ ...container, image: 'registry.test/yes:1' }] })],
    ['has another command', forged({ containers: [{ ...container, command: ['/bin/true'] }] })],
    ['has arguments', forged({ containers: [{ ...container, args: ['x'] }] })],
    ['has variables', forged({ containers: [{ ...container, env: [{ name: 'A', value: 'b' }] }] })],
    [
      'has mounts',
      forged({ containers: [{ ...container, volumeMounts: [{ name: 'x', mountPath: '/proc' }] }] }),
    ],
    ['has a second container', forged({ containers: [container, container] })],
    ['starts something before', forged({ initContainers: [container] })],
  ])('proves nothing if a pod of its name %s', (_, pod) =>
    expect(proofOf(sandbox, node, [pod]).verdict).toBe('failed'),
  );
});

describe('of a node', () => {
  const view = (changes: Partial<ProbeView> = {}): ProbeView => ({
    question: sandbox,
    runtimeClass,
    node,
    probes: [],
    outside: [],
    ageMs: at(Date.parse(MADE) + 10_000),
    ...changes,
  });
  const plan = (changes: Partial<ProbeView>) => {
    const { remove, ...rest } = planProbe(view(changes));
    return { ...rest, remove: remove.length };
  };
  /** A tenant's pod that found itself outside, made so long after the probe. */
  const tenant = (afterMs: number): Pod => ({
    metadata: { name: 'ledger-1', creationTimestamp: new Date(Date.parse(MADE) + afterMs).toISOString() },
  });
  const later = Date.parse(MADE) + RETRY_MS;
  const old = probe(passed, { metadata: { name: 'sandbox-probe-of-another-boot' } });
  const notReady = { ...node, status: { ...node.status, conditions: [] } };
  const noHandler = { ...node, status: { ...node.status, runtimeHandlers: [{ name: 'runc' }] } };

  test.each<[string, Partial<ProbeView>, object]>([
    ['without a probe one is made', {}, { make: true, remove: 0 }],
    ['that has one nothing is done', { probes: [probe(passed)] }, { make: false, remove: 0 }],
    ['whose probe runs it is waited for', { probes: [probe(undefined)] }, { make: false, remove: 0 }],
    [
      'whose probe is going, its end is waited for',
      { probes: [probe(passed, { metadata: { deletionTimestamp: 'now' } })] },
      { make: false, remove: 0 },
    ],
    ['after another boot the old probe goes and one is made', { probes: [old] }, { make: true, remove: 1 }],
    ['the old probe goes beside the new', { probes: [old, probe(passed)] }, { make: false, remove: 1 }],
    ['that failed just now', { probes: [probe(failed)] }, { make: false, remove: 0, lookAgainMs: 20_000 }],
    ['that failed a while ago', { probes: [probe(failed)], ageMs: at(later) }, { make: false, remove: 1 }],
    [
      'that passed before a pod was found outside is asked again',
      { probes: [probe(passed)], outside: [tenant(5_000)] },
      { make: false, remove: 1 },
    ],
    [
      'that passed in the same second as a pod was found outside is asked again: whoever was first is not known',
      { probes: [probe(passed)], outside: [tenant(0)] },
      { make: false, remove: 1 },
    ],
    [
      'that failed again is not asked at once for that pod',
      { probes: [probe(failed)], outside: [tenant(5_000)] },
      { make: false, remove: 0, lookAgainMs: 20_000 },
    ],
    [
      'that passed after it, the pod is given time',
      { probes: [probe(passed)], outside: [tenant(-5_000)] },
      { make: false, remove: 0, lookAgainMs: 15_000 },
    ],
    [
      'that passed after it, the pod is made anew after a while',
      { probes: [probe(passed)], outside: [tenant(-5_000)], ageMs: at(later) },
      { make: false, remove: 1 },
    ],
    [
      'that passed under a class made after the pod, the pod is made anew at once',
      {
        runtimeClass: { ...runtimeClass, metadata: { name: 'gvisor', creationTimestamp: MADE } },
        probes: [probe(passed)],
        outside: [tenant(-5_000)],
      },
      { make: false, remove: 1 },
    ],
    [
      'that passed under a class that the pod had, too, the pod is given time',
      {
        runtimeClass: { ...runtimeClass, metadata: { name: 'gvisor', creationTimestamp: MADE } },
        probes: [probe(passed, { metadata: { creationTimestamp: new Date(later - 20_000).toISOString() } })],
        outside: [tenant(5_000)],
      },
      { make: false, remove: 0, lookAgainMs: 25_000 },
    ],
    [
      'whose probe runs, pods that were found outside wait for it',
      { probes: [probe(undefined)], outside: [tenant(-5_000)], ageMs: at(later) },
      { make: false, remove: 0 },
    ],
    [
      'whose probe is going, pods that were found outside wait for the next',
      {
        probes: [probe(passed, { metadata: { deletionTimestamp: 'now' } })],
        outside: [tenant(-5_000)],
        ageMs: at(later),
      },
      { make: false, remove: 0 },
    ],
    [
      'that passed between two such pods is asked again',
      { probes: [probe(passed)], outside: [tenant(-5_000), tenant(5_000)] },
      { make: false, remove: 1 },
    ],
    [
      'that passed at a time that nobody knows is asked again',
      {
        probes: [probe(passed, { metadata: { creationTimestamp: undefined } })],
        outside: [tenant(5_000)],
      },
      { make: false, remove: 1 },
    ],
    [
      'that passed after two such pods, the first that is due is waited for',
      { probes: [probe(passed)], outside: [tenant(-5_000), tenant(-15_000)] },
      { make: false, remove: 0, lookAgainMs: 5_000 },
    ],
    [
      'that passed under a class made in the same second as such a pod, the pod is given time',
      {
        runtimeClass: { ...runtimeClass, metadata: { name: 'gvisor', creationTimestamp: MADE } },
        probes: [probe(passed, { metadata: { creationTimestamp: new Date(later - 20_000).toISOString() } })],
        outside: [tenant(0)],
      },
      { make: false, remove: 0, lookAgainMs: 20_000 },
    ],
    [
      'whose result holds for a time only is asked again as soon when it failed',
      { probes: [probe(failed)], freshMs: 60 * 60_000 },
      { make: false, remove: 0, lookAgainMs: 20_000 },
    ],
    [
      'that is gone its probes go',
      { node: undefined, probes: [old, probe(passed)] },
      { make: false, remove: 2 },
    ],
    ['nobody asks without the class', { runtimeClass: undefined }, { make: false, remove: 0 }],
    [
      'nobody asks under another handler',
      { runtimeClass: { ...runtimeClass, handler: 'runc' } },
      { make: false, remove: 0 },
    ],
    ['nobody asks without the handler', { node: noHandler }, { make: false, remove: 0 }],
    [
      'the record stays while it is not ready',
      { node: notReady, probes: [probe(passed)] },
      { make: false, remove: 0 },
    ],
    [
      'nothing is tried again while it is not ready',
      { node: notReady, probes: [probe(failed)], ageMs: at(later) },
      { make: false, remove: 0 },
    ],
  ])('%s', (_, changes, expected) => expect(plan(changes)).toEqual(expected));
});

describe('if no node can be probed', () => {
  const waiting = (phase?: string, metadata: object = {}): Pod => {
    const made = waitingProbeObject(names) as unknown as Required<Pod>;
    return {
      ...made,
      metadata: { ...made.metadata, creationTimestamp: MADE, ...metadata },
      ...(phase ? { status: { phase } } : {}),
    };
  };
  const plan = (changes: Partial<WaitingView>) => {
    const view = { names, runtimeClass, nodes: [], waiting: [], ageMs: at(Date.parse(MADE) + 10_000) };
    const { remove, ...rest } = planWaiting({ ...view, ...changes });
    return { ...rest, remove: remove.length };
  };

  test('a probe without a node waits for one that the class selects', () => {
    const { metadata, spec } = waitingProbeObject(names) as unknown as Required<Pod>;
    expect(metadata.annotations).toBeUndefined();
    expect(spec).toMatchObject({ runtimeClassName: 'gvisor', restartPolicy: 'Never' });
    for (const field of ['affinity', 'nodeName', 'nodeSelector', 'tolerations'])
      expect(spec).not.toHaveProperty(field);
  });

  test.each<[string, Partial<WaitingView>, object]>([
    ['one is made', {}, { make: true, remove: 0 }],
    [
      'one is made beside a node that is cordoned',
      { nodes: [{ ...node, spec: { unschedulable: true } }] },
      { make: true, remove: 0 },
    ],
    ['one is enough', { waiting: [waiting('Pending')] }, { make: false, remove: 0 }],
    [
      'it goes when a node can be asked itself',
      { nodes: [node], waiting: [waiting('Running')] },
      { make: false, remove: 1 },
    ],
    [
      'one of an earlier attester goes',
      { waiting: [waiting('Pending', { name: 'old' })] },
      { make: true, remove: 1 },
    ],
    [
      'one that failed is made anew after a while',
      { waiting: [waiting('Failed')] },
      { make: false, remove: 0, lookAgainMs: 20_000 },
    ],
    [
      'one that failed a while ago goes',
      { waiting: [waiting('Failed')], ageMs: at(Date.parse(MADE) + RETRY_MS) },
      { make: false, remove: 1 },
    ],
    [
      'one that failed and is going, its end is waited for',
      { waiting: [waiting('Failed', { deletionTimestamp: 'now' })], ageMs: at(Date.parse(MADE) + RETRY_MS) },
      { make: false, remove: 0 },
    ],
    [
      'one of an earlier attester goes beside one that failed',
      { waiting: [waiting('Pending', { name: 'old' }), waiting('Failed')] },
      { make: false, remove: 1, lookAgainMs: 20_000 },
    ],
    [
      'one that can be asked is enough',
      { nodes: [{ ...node, spec: { unschedulable: true } }, node] },
      { make: false, remove: 0 },
    ],
    [
      'none waits under another handler',
      { runtimeClass: { ...runtimeClass, handler: 'runc' }, waiting: [waiting('Pending')] },
      { make: false, remove: 1 },
    ],
    [
      'none waits without the class',
      { runtimeClass: undefined, waiting: [waiting('Pending')] },
      { make: false, remove: 1 },
    ],
  ])('%s', (_, changes, expected) => expect(plan(changes)).toEqual(expected));
});
