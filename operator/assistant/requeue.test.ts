import { expect, test } from 'vitest';
import { type Finding, no, unknown, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Facts } from './facts.ts';
import { nextLook } from './requeue.ts';

interface Given {
  /** Whether the Space has Capsules' own credentials. */
  readonly grants?: boolean;
  readonly granted?: boolean;
  readonly inputs?: boolean;
  /** What the step of the Deployment asks for. */
  readonly asked?: number;
  readonly workload?: Finding;
}

const REFUSED = no('PodsRefused', 'Its pod is not admitted.');

test.each<[string, Given, number]>([
  ['nothing but the sweep', {}, 600],
  ['an attempt that follows soon', { asked: 5 }, 5],
  ['an attempt long after the sweep', { asked: 900 }, 600],
  ['the grant, long before the next attempt', { asked: 900, grants: true, granted: true }, 10],
  ['a first selection, long before the next attempt', { asked: 900, grants: true }, 60],
  ['a stored input, long before the next attempt', { asked: 900, inputs: true }, 60],
  ['an attempt before the grant', { asked: 5, grants: true, granted: true }, 5],
  ['pods that start', { workload: unknown('Starting', 'Its pods start.') }, 15],
  ['pods that run', { workload: yes('Ready', 'It runs.'), inputs: true }, 60],
])('an Assistant is looked at again for what comes first: %s', (_, given, seconds) => {
  const { grants, granted, inputs, asked, workload = REFUSED } = given;
  const context = {
    appUsages: { isFresh: () => true },
    ...(grants ? { objectStore: {}, grantKey: () => undefined } : {}),
    sweepMs: () => 600_000,
    now: () => '2026-03-01T12:00:00Z',
  } as unknown as Context;
  const facts = {
    assistant: { metadata: { name: 'ledger', uid: 'one' } },
    entered: { values: new Map<string, object>(inputs ? [['bank', {}]] : []) },
    sealed: { inputs: {} },
  } as unknown as Facts;
  const outcome = {
    findings: { WorkloadReady: workload },
    granted,
    requeueAfterMs: asked === undefined ? undefined : asked * 1_000,
  };
  expect(nextLook(context, facts, { findings: {} }, outcome)).toBe(seconds * 1_000);
});
