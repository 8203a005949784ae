import { describe, expect, test } from 'vitest';
import type { Node, RuntimeClass, Toleration } from '../kinds.ts';
import { atItsBest, canRun, isReady, isSelected, obstacleOf, trimNode } from './node.ts';

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

const READY = { type: 'Ready', status: 'True' };
const node = (changes: Partial<Node> = {}): Node => ({
  metadata: { name: 'n1' },
  status: { conditions: [READY] },
  ...changes,
});
const tainted = (...taints: Taint[]): Node => node({ spec: { taints } });
const classWith = (scheduling: RuntimeClass['scheduling'] = {}): RuntimeClass => ({
  metadata: { name: 'gvisor' },
  handler: 'runsc',
  scheduling,
});

describe('a node', () => {
  test.each<[string, Node['status'], boolean]>([
    ['whose kubelet says so is Ready', { conditions: [{ type: 'Other', status: 'False' }, READY] }, true],
    ['with another condition that holds is not', { conditions: [{ type: 'Other', status: 'True' }] }, false],
    ['whose kubelet denies it is not', { conditions: [{ type: 'Ready', status: 'False' }] }, false],
    ['that says nothing is not', {}, false],
    ['without a status is not', undefined, false],
  ])('%s', (_, status, expected) => expect(isReady({ status })).toBe(expected));

  test('is selected by all labels that the class names', () => {
    const labelled = node({ metadata: { name: 'n1', labels: { a: '1', b: '2' } } });
    expect(isSelected(labelled, classWith({ nodeSelector: { a: '1', b: '2' } }))).toBe(true);
    expect(isSelected(labelled, classWith({ nodeSelector: { a: '1', b: '3' } }))).toBe(false);
    expect(isSelected(node(), classWith())).toBe(true);
    expect(canRun(node(), classWith({ nodeSelector: { a: '1' } }))).toBe(false);
    expect(canRun(node(), classWith())).toBe(true);
  });

  test.each<[string, Node, string | undefined]>([
    ['nothing', node(), undefined],
    ['its end', node({ metadata: { name: 'n1', deletionTimestamp: 'now' } }), 'is being deleted'],
    ['a kubelet that is away', node({ status: {} }), 'is not Ready'],
    ['a cordon', node({ spec: { unschedulable: true } }), 'is cordoned'],
    ['a taint that only advises', tainted({ key: 'a', effect: 'PreferNoSchedule' }), undefined],
    [
      'a taint that keeps new pods away',
      tainted({ key: 'a', value: 'x', effect: 'NoSchedule' }),
      'has the taint a=x:NoSchedule, which the class does not tolerate',
    ],
    [
      'a taint that puts pods out',
      tainted({ key: 'zone', effect: 'NoExecute' }),
      'has the taint zone:NoExecute, which the class does not tolerate',
    ],
  ])('excludes pods by %s', (_, given, expected) => expect(obstacleOf(given, classWith())).toBe(expected));

  const taint: Taint = { key: 'a', value: 'x', effect: 'NoSchedule' };
  test.each<[string, Toleration, Taint, boolean]>([
    ['of the same key and value', { key: 'a', value: 'x' }, taint, true],
    ['of another value', { key: 'a', value: 'y' }, taint, false],
    ['of another key', { key: 'b', value: 'x' }, taint, false],
    ['of no value, where the taint has none', { key: 'a' }, { key: 'a', effect: 'NoSchedule' }, true],
    ['of no value, where the taint has one', { key: 'a' }, taint, false],
    [
      'of a value, where the taint has none',
      { key: 'a', value: 'x' },
      { key: 'a', effect: 'NoSchedule' },
      false,
    ],
    ['of the key, whatever its value', { key: 'a', operator: 'Exists' }, taint, true],
    ['of another key, whatever its value', { key: 'b', operator: 'Exists' }, taint, false],
    ['of everything', { operator: 'Exists' }, taint, true],
    ['of nothing', {}, taint, false],
    ['of this effect', { key: 'a', value: 'x', effect: 'NoSchedule' }, taint, true],
    ['of another effect', { key: 'a', value: 'x', effect: 'NoExecute' }, taint, false],
    ['of another effect, of everything', { operator: 'Exists', effect: 'NoExecute' }, taint, false],
  ])('with a taint accepts a class that tolerates it %s', (_, toleration, given, expected) => {
    expect(canRun(tainted(given), classWith({ tolerations: [toleration] }))).toBe(expected);
  });

  test('with two taints needs both tolerated', () => {
    const both = tainted(taint, { key: 'b', effect: 'NoSchedule' });
    const tolerant = (...keys: string[]) =>
      classWith({ tolerations: keys.map((key) => ({ key, operator: 'Exists' })) });
    expect(obstacleOf(both, tolerant('a'))).toContain('b:NoSchedule');
    expect(obstacleOf(both, tolerant('a', 'b'))).toBeUndefined();
  });

  test('that is unavailable is judged as if it were back', () => {
    const away = node({
      metadata: { name: 'n1', labels: { a: '1' }, deletionTimestamp: 'now' },
      spec: {
        unschedulable: true,
        taints: [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }, taint],
      },
      status: { conditions: [{ type: 'Ready', status: 'Unknown' }], runtimeHandlers: [{ name: 'runsc' }] },
    });
    expect(atItsBest(away)).toEqual({
      metadata: { name: 'n1', labels: { a: '1' } },
      spec: { taints: [taint] },
      status: { conditions: [READY], runtimeHandlers: [{ name: 'runsc' }] },
    });
    expect(atItsBest(node()).spec).toEqual({ taints: [] });
  });
});

describe('the stored part of a node', () => {
  test('has what gate and prober read, and nothing that a heartbeat changes', () => {
    const at = '2026-01-01T00:00:00Z';
    const known = {
      metadata: {
        ...{ name: 'n1', uid: 'u', resourceVersion: '7', labels: { a: '1' }, deletionTimestamp: at },
        annotations: { note: 'x' },
      },
      spec: { unschedulable: true, taints: [taintOf('a')], podCIDR: '10.0.0.0/24' },
      status: {
        conditions: [
          { ...READY, lastTransitionTime: at, lastHeartbeatTime: at },
          { type: 'NetworkUnavailable', status: 'False', lastTransitionTime: at, lastHeartbeatTime: at },
          { type: 'MemoryPressure', status: 'False', lastTransitionTime: at },
        ],
        runtimeHandlers: [{ name: 'runsc', features: {} }, {}],
        nodeInfo: { bootID: 'b', containerRuntimeVersion: 'containerd://2', kernelVersion: '6' },
        images: [{ names: ['a'] }],
      },
    };
    expect(trimNode(known as unknown as Node)).toStrictEqual({
      metadata: { name: 'n1', uid: 'u', resourceVersion: '7', labels: { a: '1' }, deletionTimestamp: at },
      spec: { unschedulable: true, taints: [taintOf('a')] },
      status: {
        conditions: [READY, { type: 'NetworkUnavailable', status: 'False', lastTransitionTime: at }],
        runtimeHandlers: [{ name: 'runsc' }, { name: '' }],
        nodeInfo: { bootID: 'b', containerRuntimeVersion: 'containerd://2' },
      },
    });
  });

  test('is empty if the node reports nothing', () => {
    expect(trimNode({ metadata: { name: 'n1' } })).toStrictEqual({
      metadata: { name: 'n1' },
      spec: {},
      status: { conditions: [], nodeInfo: {} },
    });
    const silent = { conditions: [{ type: 'NetworkUnavailable', status: 'False' }] };
    expect(trimNode({ metadata: { name: 'n1' }, status: silent }).status?.conditions).toStrictEqual([]);
  });
});

function taintOf(key: string): Taint {
  return { key, effect: 'NoSchedule' };
}
