import { expect, test } from 'vitest';
import { toConditions } from '../conditions.ts';
import type { ContainerStatus, Deployment, Pod } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { WALLS_OPEN } from '../sandbox/attester.ts';
import { decideWorkload, type WorkloadView } from './health.ts';

const pod = (
  container: Partial<ContainerStatus>,
  changes: {
    revision?: string;
    ready?: boolean;
    going?: boolean;
    conditions?: object[];
    phase?: string;
  } = {},
): Pod => ({
  metadata: {
    name: 'p',
    annotations: { [ANNOTATION.revision]: changes.revision ?? 'r1' },
    ...(changes.going ? { deletionTimestamp: 'now' } : {}),
  },
  status: {
    ...(changes.phase === undefined ? {} : { phase: changes.phase }),
    conditions: [
      { type: 'Ready', status: changes.ready ? 'True' : 'False' },
      ...((changes.conditions ?? []) as []),
    ],
    containerStatuses: [{ name: 'assistant', ...container }],
  },
});
const done: Partial<ContainerStatus> = { state: { terminated: { reason: 'Completed', exitCode: 0 } } };
const attested = (state: Partial<ContainerStatus>, conditions: object[] = []): Pod => {
  const { metadata, status } = pod(waiting('PodInitializing'), { conditions });
  return {
    metadata,
    spec: { nodeName: 'n1' },
    status: { ...status, initContainerStatuses: [{ name: 'attest', ...state }] },
  };
};
const notInGvisor = { reason: 'Error', exitCode: 1, message: 'not in gVisor (kernel 6.1.0): log refused\n' };
const waiting = (reason: string, message?: string) => ({
  state: { waiting: { reason, ...(message ? { message } : {}) } },
});
const refusing = (message: string) =>
  ({
    metadata: { name: 'd' },
    status: { conditions: [{ type: 'ReplicaFailure', status: 'True', message }] },
  }) as Deployment;
const view = (pods: Pod[], changes: Partial<WorkloadView> = {}): WorkloadView => ({
  image: 'registry.test/ledger:1',
  attesterImage: 'registry.test/attester:1',
  replicas: 1,
  revision: 'r1',
  deployment: undefined,
  pods,
  handler: 'runsc',
  without: new Set(),
  unready: new Set(),
  ...changes,
});

test.each<[string, WorkloadView, string, string]>([
  ['a ready pod of the revision', view([pod({}, { ready: true })]), 'True Ready', ''],
  ['nothing at all when nothing is wished', view([], { replicas: 0 }), 'True Ready', ''],
  ['no pod yet', view([]), 'False Starting', '0 of 1'],
  [
    'a ready pod of an old revision',
    view([pod({}, { ready: true, revision: 'r0' })]),
    'False Starting',
    '0 of 1',
  ],
  [
    'a pod that was evicted, and one in its place',
    view([
      pod({ state: { terminated: { exitCode: 137 } } }, { phase: 'Failed' }),
      pod(waiting('ContainerCreating')),
    ]),
    'False Starting',
    '0 of 1',
  ],
  [
    'a pod that was evicted while it was ready',
    view([pod({}, { phase: 'Failed', ready: true })]),
    'False Starting',
    '0 of 1',
  ],
  ['a ready pod that is going', view([pod({}, { ready: true, going: true })]), 'False Starting', '0 of 1'],
  [
    'one ready of two',
    view([pod({}, { ready: true }), pod({})], { replicas: 2 }),
    'False Starting',
    '1 of 2',
  ],
  [
    'a pod on a node without the handler',
    view([attested(waiting('PodInitializing'))], { without: new Set(['n1']) }),
    'False NodeWithoutHandler',
    'The pod was scheduled on node "n1", which does not report handler "runsc"',
  ],
  [
    'a pod that has started on a node that took the handler off its list',
    view([attested(done)], { without: new Set(['n1']) }),
    'False Starting',
    '',
  ],
  [
    'a pod on another node than one without the handler',
    view([attested(waiting('PodInitializing'))], { without: new Set(['n2']) }),
    'False Starting',
    '',
  ],
  [
    'a pod whose node was lost',
    view([attested(done)], { unready: new Set(['n1']) }),
    'False NodeNotReady',
    'Node "n1", on which its pod runs, is not Ready',
  ],
  [
    'a pod in place of the one whose node was lost',
    view([pod({}, { ready: true })], { unready: new Set(['n1']) }),
    'True Ready',
    '',
  ],
  [
    'a pod that found itself outside the sandbox, on a node that is lost now',
    view([attested({ state: { terminated: notInGvisor } })], { unready: new Set(['n1']) }),
    'False NotAttested',
    '',
  ],
  [
    'a pod that found itself outside the sandbox',
    view([attested({ state: { terminated: notInGvisor } })]),
    'False NotAttested',
    'The pod on node "n1" is not in the sandbox: not in gVisor (kernel 6.1.0): log refused.',
  ],
  [
    'one that did and is tried again',
    view([attested({ ...waiting('CrashLoopBackOff'), lastState: { terminated: notInGvisor } })]),
    'False NotAttested',
    'take the node out of service',
  ],
  [
    'an attester that cannot be run',
    view([attested({ state: { terminated: { reason: 'StartError', exitCode: 128 } } })]),
    'False NotAttested',
    'could not be run on node "n1": StartError, exit code 128',
  ],
  [
    'an attester whose image cannot be pulled',
    view([attested(waiting('ImagePullBackOff'))]),
    'False ImagePullFailed',
    'registry.test/attester:1',
  ],
  ['an attester that runs', view([attested({ state: { running: {} } })]), 'False Starting', '0 of 1'],
  [
    'an attester that runs again, and found the pod outside the sandbox before',
    view([attested({ state: { running: {} }, lastState: { terminated: notInGvisor } })]),
    'False NotAttested',
    'is not in the sandbox',
  ],
  ['a pod that is attested and starting', view([attested(done)]), 'False Starting', '0 of 1'],
  [
    'one that is attested now and could not be before',
    view([attested({ ...done, lastState: { terminated: notInGvisor } })]),
    'False Starting',
    '0 of 1',
  ],
  [
    'an image that cannot be pulled',
    view([pod(waiting('ErrImagePull'))]),
    'False ImagePullFailed',
    '"registry.test/ledger:1"',
  ],
  [
    'an image that is waited for',
    view([pod(waiting('ImagePullBackOff', 'Back-off 10s'))]),
    'False ImagePullFailed',
    'registry',
  ],
  [
    'an image that runs as root',
    view([
      pod(
        waiting(
          'CreateContainerConfigError',
          'container has runAsNonRoot and image will run as root (pod: x)',
        ),
      ),
    ]),
    'False PodsRefused',
    'will run as root (pod: x). The image must run as a numeric user other than 0.',
  ],
  [
    'a command that the image does not have',
    view([pod(waiting('RunContainerError', 'exec: "start": executable file not found in $PATH'))]),
    'False PodsRefused',
    'not found in $PATH. Check the image, and command and args in the spec. kubectl describe pod says more.',
  ],
  [
    'a Secret that was deleted',
    view([pod(waiting('CreateContainerConfigError', 'secret "ledger-database" not found'))]),
    'False Starting',
    'The container waits for a Secret, which the operator creates again: secret "ledger-database" not found.',
  ],
  [
    'a crash loop',
    view([
      pod({ ...waiting('CrashLoopBackOff'), restartCount: 3, lastState: { terminated: { exitCode: 7 } } }),
    ]),
    'False CrashLooping',
    'exit code 7',
  ],
  [
    'too little memory',
    view([pod({ restartCount: 1, lastState: { terminated: { reason: 'OOMKilled', exitCode: 137 } } })]),
    'False CrashLooping',
    'out of memory',
  ],
  ['a container that comes up', view([pod(waiting('ContainerCreating'))]), 'False Starting', ''],
  [
    'a pod that is not admitted',
    view([], { deployment: refusing('exceeded quota: space-quota') }),
    'False PodsRefused',
    'exceeded quota',
  ],
  [
    'a pod that no node takes',
    view([pod({}, { conditions: [{ type: 'PodScheduled', status: 'False', message: 'Insufficient cpu' }] })]),
    'False Unschedulable',
    'Insufficient cpu',
  ],
])('%s', (_, given, expected, told) => {
  const { status, reason, message } = decideWorkload(given);
  expect(`${status} ${reason}`).toBe(expected);
  expect(message).toContain(told);
});

const ESCAPES = '\u001b[2J\u0085\u2028\u202e';
/** Cut anywhere, it ends in the middle of a character in one of the two. */
const FACES = ['', 'x'].map((before) => `${before}${ESCAPES}\n${'\u{1f600}'.repeat(1000)}`);

test.each<[string, (message: string) => WorkloadView]>([
  ['the attester', (message) => view([attested({ state: { terminated: { exitCode: 1, message } } })])],
  [
    'the attester of the walls',
    (message) => view([attested({ state: { terminated: { exitCode: WALLS_OPEN, message } } })]),
  ],
  ['the runtime', (reason) => view([attested({ state: { terminated: { exitCode: 128, reason } } })])],
  ['the kubelet', (message) => view([pod(waiting('CreateContainerError', message))])],
  ['admission', (message) => view([], { deployment: refusing(message) })],
  [
    'the scheduler',
    (message) => view([pod({}, { conditions: [{ type: 'PodScheduled', status: 'False', message }] })]),
  ],
])('a message of %s is shown as one well-formed line without control characters', (_, saying) => {
  for (const text of FACES) {
    const found = decideWorkload(saying(text));
    expect(found.message).toContain('\u{1f600}…');
    // As long as a condition may be, and longer, it stays so.
    for (let more = 0; more < 1000; more += 1) {
      const message = `${'y'.repeat(more)}${found.message}`;
      const [condition] = toConditions({ WorkloadReady: { ...found, message } }, [], 1, () => 'now');
      expect(condition?.message).toMatch(/^[^\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]+$/u);
    }
  }
});

test('counters of the kubelet do not change the message', () => {
  const after = (seconds: number) =>
    decideWorkload(view([pod(waiting('ImagePullBackOff', `Back-off ${seconds}s`))]));
  expect(after(10)).toEqual(after(20));
});
