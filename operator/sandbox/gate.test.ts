import { describe, expect, test } from 'vitest';
import type { Node, RuntimeClass } from '../kinds.ts';
import { decideGate, type GateInput, isLost, isUsable } from './gate.ts';
import { trimNode } from './node.ts';
import type { Proof } from './probe.ts';

const runtimeClass: RuntimeClass = { metadata: { name: 'gvisor' }, handler: 'runsc' };
const node: Node = {
  metadata: { name: 'n', labels: { sandbox: 'yes' } },
  spec: {},
  status: {
    conditions: [{ type: 'Ready', status: 'True' }],
    runtimeHandlers: [{ name: '' }, { name: 'runc' }, { name: 'runsc' }],
  },
};
const open: GateInput = {
  wanted: { runtimeClass: 'gvisor', handler: 'runsc', handlerReport: 'node' },
  classes: { health: 'current', found: runtimeClass },
  nodes: { health: 'current', all: [node] },
  probes: { health: 'current', of: () => ({ verdict: 'passed' }) },
};
const believingProbes = (input: GateInput): GateInput => ({
  ...input,
  wanted: { ...input.wanted, handlerReport: 'probe' },
});
const withProof = (proof: Proof): GateInput => ({ ...open, probes: { health: 'current', of: () => proof } });
const withProofs = (proofs: Readonly<Record<string, Proof['verdict']>>): GateInput => ({
  ...open,
  nodes: {
    health: 'current',
    all: Object.keys(proofs).map((name) => ({ ...node, metadata: { ...node.metadata, name } })),
  },
  probes: { health: 'current', of: ({ metadata }) => ({ verdict: proofs[metadata.name] ?? 'untried' }) },
});
const withClass = (found: RuntimeClass | undefined): GateInput => ({
  ...open,
  classes: { health: 'current', found },
});
const withNode = (changes: Partial<Node>): GateInput => ({
  ...open,
  nodes: { health: 'current', all: [{ ...node, ...changes }] },
});
const selecting = (scheduling: NonNullable<RuntimeClass['scheduling']>) =>
  withClass({ ...runtimeClass, scheduling });
const tainted = { spec: { taints: [{ key: 'gpu', effect: 'NoSchedule' }] } };
const tolerating = (toleration: {
  key?: string;
  operator?: string;
  value?: string;
  effect?: string;
}): GateInput => ({
  ...selecting({ tolerations: [toleration] }),
  nodes: withNode(tainted).nodes,
});

test('a class is usable while it has our handler and is not being deleted', () => {
  const going = { ...runtimeClass, metadata: { name: 'gvisor', deletionTimestamp: 'now' } };
  const classes = [runtimeClass, going, { ...runtimeClass, handler: 'runc' }, undefined];
  expect(classes.map((one) => isUsable(one, open.wanted))).toEqual([true, false, false, false]);
});

describe('the gate is open', () => {
  test.each<[string, GateInput]>([
    ['when the class has the handler and a node reports it', open],
    ['when the node has the labels that the class selects', selecting({ nodeSelector: { sandbox: 'yes' } })],
    ['when the class tolerates the taint by key', tolerating({ key: 'gpu', operator: 'Exists' })],
    ['when the class tolerates every taint', tolerating({ operator: 'Exists' })],
    [
      'when one of several nodes will do',
      { ...open, nodes: { health: 'current', all: [{ metadata: { name: 'other' } }, node] } },
    ],
    ['when one of several nodes has passed', withProofs({ a: 'failed', b: 'passed', c: 'running' })],
    [
      'when a node that reports no handlers has passed, and a probe is to be enough',
      believingProbes(withNode({ status: { conditions: [{ type: 'Ready', status: 'True' }] } })),
    ],
    ['when a taint only prefers', withNode({ spec: { taints: [{ key: 'x', effect: 'PreferNoSchedule' }] } })],
  ])('%s', (_, input) =>
    expect(decideGate(input)).toMatchObject({ status: 'True', reason: 'SandboxAvailable' }),
  );
});

describe('the gate is closed', () => {
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  test.each<[string, GateInput, string]>([
    [
      'before the classes were read',
      { ...open, classes: { health: 'unsynced', found: undefined } },
      'Unknown ClusterUnreadable',
    ],
    [
      'when the classes cannot be read any more, whatever was read before',
      { ...open, classes: { health: 'failing', found: runtimeClass } },
      'Unknown ClusterUnreadable',
    ],
    [
      'when the nodes cannot be read any more',
      { ...open, nodes: { health: 'failing', all: [node] } },
      'Unknown ClusterUnreadable',
    ],
    ['without the class', withClass(undefined), 'False RuntimeClassNotFound'],
    [
      'when the class is going',
      withClass({ ...runtimeClass, metadata: { name: 'gvisor', deletionTimestamp: 'now' } }),
      'False RuntimeClassNotFound',
    ],
    [
      'when the class names another handler',
      withClass({ ...runtimeClass, handler: 'runc' }),
      'False HandlerMismatch',
    ],
    ['when there is no node', { ...open, nodes: { health: 'current', all: [] } }, 'False NoNodeReady'],
    [
      'when the node has other handlers',
      withNode({ status: { ...ready, runtimeHandlers: [{ name: 'runc' }] } }),
      'False NoNodeWithHandler',
    ],
    ['when the node reports none at all', withNode({ status: ready }), 'Unknown HandlerUnknown'],
    [
      'when one node reports none at all, and another has other handlers',
      {
        ...open,
        nodes: {
          health: 'current',
          all: [
            { ...node, status: ready },
            { ...node, status: { ...ready, runtimeHandlers: [{ name: 'runc' }] } },
          ],
        },
      },
      'False NoNodeWithHandler',
    ],
    [
      'when a probe is to be enough, and the node reports handlers without ours',
      believingProbes(withNode({ status: { ...ready, runtimeHandlers: [{ name: 'runc' }] } })),
      'False NoNodeWithHandler',
    ],
    ['before a probe was made', withProof({ verdict: 'untried' }), 'Unknown ProbePending'],
    ['while the only probe runs', withProof({ verdict: 'running' }), 'Unknown ProbePending'],
    [
      'while one probe runs and the others failed',
      withProofs({ a: 'failed', b: 'running' }),
      'Unknown ProbePending',
    ],
    ['when every probe failed', withProofs({ a: 'failed', b: 'failed' }), 'False ProbeFailed'],
    [
      'when the probes cannot be read any more, whatever they said before',
      { ...open, probes: { ...open.probes, health: 'failing' } },
      'Unknown ClusterUnreadable',
    ],
    [
      'when the node is not ready',
      withNode({ status: { ...node.status, conditions: [{ type: 'Ready', status: 'Unknown' }] } }),
      'False NoNodeReady',
    ],
    ['when the node takes no pods', withNode({ spec: { unschedulable: true } }), 'False NoNodeReady'],
    [
      'when the node is going',
      withNode({ metadata: { name: 'n', deletionTimestamp: 'now' } }),
      'False NoNodeReady',
    ],
    [
      'when the class selects other nodes',
      selecting({ nodeSelector: { sandbox: 'no' } }),
      'False NoNodeReady',
    ],
    ['when the node has a taint that the class does not tolerate', withNode(tainted), 'False NoNodeReady'],
    [
      'when the class tolerates another value',
      tolerating({ key: 'gpu', value: 'other' }),
      'False NoNodeReady',
    ],
    [
      'when the class tolerates another effect',
      tolerating({ key: 'gpu', operator: 'Exists', effect: 'NoExecute' }),
      'False NoNodeReady',
    ],
  ])('%s', (_, input, expected) => {
    const { status, reason, message } = decideGate(input);
    expect(`${status} ${reason}`).toBe(expected);
    expect(message.length).toBeGreaterThan(40);
  });
});

describe('a gate that is closed names the nodes', () => {
  const called = (name: string, changes: Partial<Node> = {}): Node => ({
    ...node,
    ...changes,
    metadata: { ...node.metadata, ...changes.metadata, name },
  });
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  const runc = { status: { ...ready, runtimeHandlers: [{ name: 'runc' }] } };
  const said = (all: readonly Node[], input: GateInput = open) =>
    decideGate({ ...input, nodes: { health: 'current', all } }).message;

  test('and what prevents pods on each', () => {
    const message = said([
      called('e', { spec: { taints: [{ key: 'gpu', value: 'a', effect: 'NoSchedule' }] } }),
      called('d', { spec: { unschedulable: true } }),
      called('c', { metadata: { name: 'c', deletionTimestamp: 'now' } }),
      called('b', { status: { ...node.status, conditions: [{ type: 'Ready', status: 'Unknown' }] } }),
    ]);
    expect(message).toContain(
      ': "b" is not Ready; "c" is being deleted; "d" is cordoned; "e" has the taint gpu=a:NoSchedule, which the class does not tolerate. Running Assistants continue',
    );
  });

  test('that have no handler', () => {
    expect(said([called('b', runc), called('a', runc)])).toContain(
      'handler "runsc": not "a", nor "b". Install',
    );
  });

  test('that have not passed a probe, and one that has but is not schedulable', () => {
    const of: GateInput['probes']['of'] = ({ metadata }) => ({
      verdict: metadata.name === 'a' ? 'passed' : 'failed',
    });
    expect(
      said([called('a', { spec: { unschedulable: true } }), called('b')], {
        ...open,
        probes: { health: 'current', of },
      }),
    ).toContain(': "a" is cordoned; "b" has not passed a probe.');
  });

  test('that have no handler, and one that has it but is not schedulable', () => {
    expect(said([called('a', { spec: { unschedulable: true } }), called('b', runc)])).toContain(
      ': "a" is cordoned; "b" does not report handler "runsc".',
    );
  });

  test('that its class selects, or the labels that no node has', () => {
    const input = selecting({ nodeSelector: { sandbox: 'no', zone: 'a' } });
    expect(said([called('a')], input)).toContain(': no node has the labels sandbox=no, zone=a.');
    expect(said([])).toContain(': there is none.');
  });

  test('up to five, and says of more that there are others', () => {
    const nodes = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => called(name, runc));
    expect(said(nodes.slice(0, 5))).toContain(': not "a", nor "b", nor "c", nor "d", nor "e". Install');
    expect(said(nodes)).toContain(' and others. Install');
  });

  test('as many as fit into a message, the same ones each time', () => {
    const all = Array.from({ length: 2_000 }, (_, i) => called(`node-${i}.${'x'.repeat(30)}`, runc));
    const message = said(all);
    expect(message.length).toBeLessThan(1_000);
    expect(message).toContain(' and others. Install');
    expect(said(all.toReversed())).toBe(message);
  });
});

describe('a gate that is open', () => {
  const named = (name: string, handler: string): Node => ({
    metadata: { name },
    status: { conditions: [{ type: 'Ready', status: 'True' }], runtimeHandlers: [{ name: handler }] },
  });
  const said = (...all: readonly Node[]) => decideGate({ ...open, nodes: { health: 'current', all } });

  test('names the nodes that the class selects and on which pods cannot start', () => {
    const finding = said(named('c', 'runc'), named('a', 'runsc'), named('b', 'runc'));
    expect(finding.status).toBe('True');
    expect(finding.message).toContain('"b", "c"');
    expect(finding.message).toContain('sandbox.scheduling');
  });

  test('names no nodes if each has the handler', () =>
    expect(said(named('a', 'runsc'), named('b', 'runsc')).message).not.toContain('sandbox.scheduling'));
});

describe('the sandbox is not lost', () => {
  const named = (name: string, changes: Partial<Node> = {}): Node => ({
    ...node,
    ...changes,
    metadata: { ...node.metadata, name },
  });
  const cordoned = {
    spec: {
      unschedulable: true,
      taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
    },
  };
  const notReady = { status: { ...node.status, conditions: [{ type: 'Ready', status: 'False' }] } };
  const without = { status: { ...node.status, runtimeHandlers: [{ name: 'runc' }] } };
  const among = (all: readonly Node[], of: GateInput['probes']['of'] = open.probes.of): GateInput => ({
    ...open,
    nodes: { health: 'current', all },
    probes: { health: 'current', of },
  });

  test.each<[string, GateInput, boolean]>([
    ['where the only node is cordoned', among([named('a', cordoned)]), false],
    ['where the only node is not ready', among([named('a', notReady)]), false],
    [
      'where it is cordoned, and another has no such handler',
      among([named('a', cordoned), named('b', without)]),
      false,
    ],
    [
      'where it is cordoned and has passed, and another has failed',
      among([named('a', cordoned), named('b')], ({ metadata }) => ({
        verdict: metadata.name === 'a' ? 'passed' : 'failed',
      })),
      false,
    ],
    ['where there is no node', among([]), false],
    ['but it is without a class', withClass(undefined), true],
    ['but it is under another handler', withClass({ ...runtimeClass, handler: 'runc' }), true],
    ['but it is where the nodes have it no more', among([named('a', without)]), true],
    ['but it is where every probe failed', withProofs({ a: 'failed' }), true],
  ])('%s', (_, input, lost) => expect(isLost(decideGate(input))).toBe(lost));

  test('but the network policies are if a probe got through', () => {
    const finding = { status: 'False', reason: 'EnforcementFailed', message: 'x' } as const;
    expect([isLost(finding), isLost({ ...finding, reason: 'EnforcementUnproven' })]).toEqual([true, false]);
  });
});

test('a refusal names the node that was probed and what was found there', () => {
  expect(decideGate(withProof({ verdict: 'failed', found: 'not in gVisor' })).message).toContain(
    'On node "n" a probe under RuntimeClass "gvisor" found: not in gVisor.',
  );
  expect(
    decideGate(withProof({ verdict: 'running', found: 'its image cannot be pulled' })).message,
  ).toContain('on node "n": its image cannot be pulled.');
  expect(decideGate(withProof({ verdict: 'untried' })).message).toContain(
    'on node "n". Nothing is scheduled',
  );
});

test('of several nodes a refusal names the first by name, so that it stays the same', () => {
  for (const names of [
    ['b', 'a', 'c'],
    ['c', 'b', 'a'],
  ])
    expect(
      decideGate(withProofs(Object.fromEntries(names.map((name) => [name, 'failed'])))).message,
    ).toContain('On node "a"');
});

test('the stored part of a node gives the same decision as the whole node', () => {
  const whole = {
    ...node,
    spec: { ...node.spec, podCIDR: '10.0.0.0/24', unschedulable: false },
    status: { ...node.status, images: [{ names: ['x'] }] },
  } as Node;
  expect(trimNode(whole)).toEqual({ ...node, spec: {}, status: { ...node.status, nodeInfo: {} } });
  expect(trimNode({ metadata: { name: 'n' } }).status?.runtimeHandlers).toBeUndefined();
});
