import { describe, expect, it } from 'vitest';
import { deleteProbers, isUp, stateOf } from './probers.ts';

const pod = (status: object) => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' }, status });

describe('a pod that was waited for', () => {
  it('is up when its container runs, and not while the container waits to be started again', () => {
    const [runs, waits] = [{ running: {} }, { waiting: { reason: 'CrashLoopBackOff' } }];
    const up = (phase: string, state: object) => isUp(pod({ phase, containerStatuses: [{ state }] }));
    expect([up('Running', runs), up('Running', waits), up('Pending', waits)]).toEqual([true, false, false]);
  });
});

describe('the report about a pod that was waited for', () => {
  it('names its state, and why', () => {
    const conditions = [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/1 nodes are available' },
      { type: 'Initialized', status: 'True' },
    ];
    expect(stateOf(pod({ phase: 'Pending', conditions }))).toBe(
      'it is Pending; PodScheduled Unschedulable 0/1 nodes are available',
    );
  });

  it('names what happened to its container', () => {
    const containerStatuses = [{ state: { waiting: { reason: 'ImagePullBackOff' } } }];
    expect(stateOf(pod({ containerStatuses }))).toBe(
      'it is Pending; {"waiting":{"reason":"ImagePullBackOff"}}',
    );
  });

  it('says that it does not exist', () => {
    expect(stateOf(undefined)).toBe('it does not exist');
  });
});

describe('what a killed run has left', () => {
  it('is deleted in this Space alone, since another one may be measured at the same time', async () => {
    const asked: string[] = [];
    const kube = {
      run: async (args: readonly string[]) => {
        asked.push(args.filter((arg) => !arg.startsWith('--')).join(' '));
        return { code: 0, stdout: '', stderr: '' };
      },
    };
    await deleteProbers(kube, { space: 'home', namespace: 'people' }, 1);
    expect(asked.sort()).toEqual([
      'delete assistants.platform.space,capsules.platform.space,secrets -n people -l platform.space/verify',
      'delete namespaces -l platform.space/verify,platform.space/verify-space=home',
      'delete pods -n home-services -l platform.space/verify',
      'delete pods -n home-system -l platform.space/verify',
      'delete pods -n people -l platform.space/verify',
    ]);
  });
});
