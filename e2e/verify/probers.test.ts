import { describe, expect, it } from 'vitest';
import { stateOf } from './probers.ts';

const pod = (status: object) => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' }, status });

describe('what is said of a pod that was waited for', () => {
  it('is where it stands, and why', () => {
    const conditions = [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/1 nodes are available' },
      { type: 'Initialized', status: 'True' },
    ];
    expect(stateOf(pod({ phase: 'Pending', conditions }))).toBe(
      'it is Pending; PodScheduled Unschedulable 0/1 nodes are available',
    );
  });

  it('is what became of its container', () => {
    const containerStatuses = [{ state: { waiting: { reason: 'ImagePullBackOff' } } }];
    expect(stateOf(pod({ containerStatuses }))).toBe(
      'it is Pending; {"waiting":{"reason":"ImagePullBackOff"}}',
    );
  });

  it('is that it is gone', () => {
    expect(stateOf(undefined)).toBe('it is gone');
  });
});
