import { describe, expect, it } from 'vitest';
import type { Finished, Kube } from './kube.ts';
import type { KubeObject } from './kube-object.ts';
import { isHopeless, isRolledOut, rolledOut } from './rollout.ts';

const workload = (replicas: number, status: object): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'broker', namespace: 'home', generation: 2 },
  spec: { replicas },
  status,
});
const whole = { observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1 };

describe('a workload is rolled out', () => {
  it.each([
    ['when its new pods are ready and the old ones gone', 1, whole, true],
    ['not while its controller has not seen the change', 1, { ...whole, observedGeneration: 1 }, false],
    ['not while an old pod is there', 1, { ...whole, replicas: 2 }, false],
    ['not while the pod that is ready is an old one', 1, { ...whole, updatedReplicas: 0 }, false],
    ['not before its status exists', 1, undefined, false],
    ['when it wants no pods and has none', 0, { observedGeneration: 2 }, true],
  ])('%s', (_, replicas, status, expected) => {
    expect(isRolledOut(workload(replicas, status as object))).toBe(expected);
  });
});

const podThatWaits = (reason: string, restartCount = 0): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'broker-1', namespace: 'home' },
  status: {
    phase: 'Pending',
    containerStatuses: [{ restartCount, state: { waiting: { reason, message: 'because of it' } } }],
  },
});

describe('waiting does not help a pod', () => {
  it.each([
    ['whose image cannot be pulled', podThatWaits('ImagePullBackOff'), true],
    ['whose Secret is missing', podThatWaits('CreateContainerConfigError'), true],
    ['that crashes again and again', podThatWaits('CrashLoopBackOff', 4), true],
  ])('%s', (_, pod, expected) => expect(isHopeless(pod)).toBe(expected));

  it.each([
    ['that is being created', podThatWaits('ContainerCreating')],
    ['that crashed once, before its database was there', podThatWaits('CrashLoopBackOff', 1)],
  ])('but may help one %s', (_, pod) => expect(isHopeless(pod)).toBe(false));
});

it('a rollout that cannot end fails at once, with the reason, the warnings and the end of the log', async () => {
  const say = (stdout: string): Promise<Finished> => Promise.resolve({ code: 0, stdout, stderr: '' });
  const kube: Pick<Kube, 'list' | 'run'> = {
    list: (kind) =>
      Promise.resolve(kind === 'pods' ? [podThatWaits('CrashLoopBackOff', 5)] : [workload(1, {})]),
    run: (args) => say(args[0] === 'logs' ? 'cannot read the key\n' : '1s Warning BackOff pod/broker-1\n'),
  };
  const step = { note: () => undefined } as never;
  await expect(rolledOut(kube as Kube, ['home'], step)).rejects.toThrow(
    [
      'broker: will not become ready',
      'pod home/broker-1 waits: CrashLoopBackOff because of it',
      'the end of the log of home/broker-1:',
      '  cannot read the key',
      'warnings in home:',
      '  1s Warning BackOff pod/broker-1',
    ].join('\n'),
  );
});
