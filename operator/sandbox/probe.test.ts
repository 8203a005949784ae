import { describe, expect, test } from 'vitest';
import type { Deployment, Node, Pod } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import { names } from '../testing/names.ts';
import {
  asks,
  isProbe,
  isWaitingProbe,
  NETWORK_PROBE,
  PROBE,
  probedNode,
  probeName,
  probeObject,
  proofOf,
  type Question,
  sandboxQuestion,
  waitingProbeName,
  waitingProbeObject,
} from './probe.ts';

/** What a probe is, and what its pod proves; when one is made is in `prober.test.ts`. */

const node: Node = {
  metadata: { name: 'n1', uid: 'u1' },
  status: { nodeInfo: { bootID: 'b1', containerRuntimeVersion: 'containerd://2.1.0' } },
};
const operator: Deployment = { metadata: { name: 'home-operator', namespace: 'home-system', uid: 'o1' } };
const question = sandboxQuestion(names);
const made = (changed: SpaceNames = names, by?: Deployment) =>
  probeObject(sandboxQuestion(changed), node, by) as unknown as Required<Pod>;

describe('a probe', () => {
  test('is a pod of the class for one node, with only the attester and no further rights', () => {
    expect(made()).toEqual({
      metadata: {
        ...{ name: probeName(question, node), namespace: 'home-system' },
        labels: { 'platform.space/space': 'home', 'platform.space/component': 'sandbox-probe' },
        annotations: { 'platform.space/node': 'n1' },
      },
      spec: {
        ...{ runtimeClassName: 'gvisor', restartPolicy: 'Never', activeDeadlineSeconds: 60 },
        ...{ automountServiceAccountToken: false, enableServiceLinks: false },
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [
                { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] },
              ],
            },
          },
        },
        containers: [question.container],
      },
    });
  });

  test('is owned by its operator, and pulled with the Space’s pull Secrets', () => {
    expect(made(names, operator).metadata).toMatchObject({
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'Deployment', name: 'home-operator', uid: 'o1' }],
    });
    expect(made(names, { metadata: { name: 'home-operator' } }).metadata).not.toHaveProperty(
      'ownerReferences',
    );
    expect(made({ ...names, pullSecrets: ['a', 'b'] }).spec).toMatchObject({
      imagePullSecrets: [{ name: 'a' }, { name: 'b' }],
    });
    expect(made({ ...names, pullSecrets: [] }).spec).not.toHaveProperty('imagePullSecrets');
  });

  test('for any node has another name for another class, handler or attester', () => {
    const others = [{ runtimeClass: 'other' }, { handler: 'other' }, { attesterImage: 'other' }];
    const all = [{}, ...others].map((changes) => waitingProbeName({ ...names, ...changes }));
    expect(new Set(all).size).toBe(4);
    expect(waitingProbeObject(names).metadata.name).toBe(all[0]);
  });

  test('has another name for another node, boot, runtime, class, handler, attester, command or kind', () => {
    const nodes: Node[] = [
      { ...node, metadata: { name: 'n1' } },
      { metadata: { name: 'n2' } },
      { ...node, status: { nodeInfo: { ...node.status?.nodeInfo, bootID: 'b2' } } },
      { ...node, status: { nodeInfo: { ...node.status?.nodeInfo, containerRuntimeVersion: 'x' } } },
    ];
    const questions: Question[] = [
      sandboxQuestion({ ...names, runtimeClass: 'other' }),
      sandboxQuestion({ ...names, handler: 'other' }),
      sandboxQuestion({ ...names, attesterImage: 'other' }),
      { ...question, container: { ...question.container, command: ['other'] } },
      { ...question, component: NETWORK_PROBE },
      { ...question, about: () => ['more'] },
    ];
    const all = [
      probeName(question, node),
      ...nodes.map((one) => probeName(question, one)),
      ...questions.map((one) => probeName(one, node)),
    ];
    expect(new Set(all).size).toBe(11);
    expect(all[0]).toMatch(/^sandbox-probe-[0-9a-f]{16}$/);
  });
});

test('a pod is a probe by its label, of one node or any by its annotation', () => {
  const pod = (component: string | undefined, at?: string): Pod => ({
    metadata: {
      name: 'p',
      ...(component === undefined ? {} : { labels: { 'platform.space/component': component } }),
      ...(at === undefined ? {} : { annotations: { 'platform.space/node': at } }),
    },
  });
  for (const component of [PROBE, NETWORK_PROBE]) {
    expect([isProbe(pod(component)), isProbe(pod(component, 'n1'))]).toEqual([true, true]);
    expect([isWaitingProbe(pod(component)), isWaitingProbe(pod(component, 'n1'))]).toEqual([true, false]);
    expect([probedNode(pod(component)), probedNode(pod(component, 'n1'))]).toEqual([undefined, 'n1']);
  }
  for (const other of [undefined, pod(undefined, 'n1'), pod('assistant', 'n1'), pod('assistant')])
    expect([isProbe(other), isWaitingProbe(other), probedNode(other)]).toEqual([false, false, undefined]);
  expect([asks(question, pod(PROBE)), asks(question, pod(NETWORK_PROBE))]).toEqual([true, false]);
});

describe('the pod of a probe', () => {
  const left = (status: NonNullable<Pod['status']>, changes: Partial<Pod['metadata']> = {}): Pod => {
    const { metadata, spec } = made();
    return { metadata: { ...metadata, ...changes }, spec: { ...spec, nodeName: 'n1' }, status };
  };
  const judged = (...pods: Pod[]) => proofOf(question, node, pods);
  const status = (name: string, state: object) => ({ name, state });
  const conditions = (...all: [type: string, status: string][]) =>
    all.map(([type, is]) => ({ type, status: is }));

  test('counts only under the name that belongs to this node as it is now, and while it stays', () => {
    const passed = left({ phase: 'Succeeded' });
    const other = left({ phase: 'Succeeded' }, { name: 'sandbox-probe-of-another-boot' });
    expect(judged()).toEqual({ verdict: 'untried' });
    expect(judged(other)).toEqual({ verdict: 'untried' });
    expect(judged(other, passed)).toEqual({ verdict: 'passed' });
    expect(judged(left({ phase: 'Succeeded' }, { deletionTimestamp: 'now' }))).toEqual({
      verdict: 'untried',
    });
  });

  test('has failed with the message of the attester, or of the kubelet', () => {
    const end = { terminated: { exitCode: 3, message: 'reached\n', reason: 'Error' } };
    const containerStatuses = [status('other', { terminated: { exitCode: 9 } }), status('attest', end)];
    expect(judged(left({ phase: 'Failed', containerStatuses }))).toEqual({
      ...{ verdict: 'failed', found: 'reached', exitCode: 3 },
    });
    expect(judged(left({ phase: 'Failed' }))).toEqual({ verdict: 'failed', found: 'its pod failed' });
    expect(judged(left({ phase: 'Failed', reason: 'Evicted', message: 'no disk' }))).toEqual({
      ...{ verdict: 'failed', found: 'no disk' },
    });
    expect(judged(left({ phase: 'Failed', reason: 'DeadlineExceeded' })).found).toMatch(
      /^no end within 60 s/,
    );
  });

  test('is running while it has not ended, and shows what it waits for', () => {
    const placed = conditions(['PodScheduled', 'True'], ['Ready', 'False']);
    const running = { verdict: 'running' };
    expect(judged(left({ phase: 'Running', conditions: placed }))).toEqual(running);
    expect(judged(left({ phase: 'Running', reason: 'DeadlineExceeded' }))).toEqual(running);
    expect(
      judged(
        left({ phase: 'Pending', conditions: conditions(['Ready', 'True'], ['PodScheduled', 'False']) }),
      ),
    ).toEqual({ ...running, found: 'the scheduler does not assign its pod to that node' });
    const waiting = (reason: string) =>
      left({ containerStatuses: [status('attest', { waiting: { reason } })] });
    expect(judged(waiting('ContainerCreating'))).toEqual(running);
    for (const reason of ['ErrImagePull', 'ImagePullBackOff'])
      expect(judged(waiting(reason))).toEqual({ ...running, found: 'its image cannot be pulled' });
  });
});
