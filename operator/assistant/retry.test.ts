import { expect, test } from 'vitest';
import type { Context } from '../context.ts';
import type { Assistant, Deployment } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { askAgain, refusedForSandbox, waitOf } from './retry.ts';

const names = { space: 'home', runtimeClass: 'gvisor' };
const refused = (message: string, status = 'True') =>
  ({
    metadata: { name: 'ledger' },
    status: { conditions: [{ type: 'ReplicaFailure', status, message }] },
  }) as Deployment;
const POLICY = `pods "ledger-1" is forbidden: ValidatingAdmissionPolicy 'home-sandbox' with binding 'home-sandbox' denied request: …`;

test.each<[string, Deployment | undefined, boolean]>([
  ['nothing is known of it', undefined, false],
  ['it was not refused', { metadata: { name: 'ledger' } }, false],
  ['the policy refused it', refused(POLICY), true],
  ['it did, and lets it in by now', refused(POLICY, 'False'), false],
  ['the class was not there', refused('pod rejected: RuntimeClass "gvisor" not found'), true],
  ['another class was not there', refused('pod rejected: RuntimeClass "kata" not found'), false],
  ['another Space’s policy refused it', refused(POLICY.replaceAll('home', 'cabin')), false],
  ['the quota refused it', refused('exceeded quota: space-quota, requested: pods=1'), false],
])('a Deployment is retried only because of the sandbox: %s', (_, deployment, expected) =>
  expect(refusedForSandbox(names, deployment)).toBe(expected),
);

const NOW = Date.parse('2026-03-01T12:00:00Z');
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

test.each<[string, { sandbox?: string; since?: number; refused?: number }, number]>([
  ['the sandbox was not there at the last look', { sandbox: 'False', since: 600, refused: 600 }, 5],
  ['nothing is known of the sandbox', { refused: 600 }, 5],
  ['the sandbox is there for a moment, after a long loss', { sandbox: 'True', since: 2, refused: 7200 }, 5],
  ['it is there for longer', { sandbox: 'True', since: 40, refused: 7200 }, 40],
  ['the pods are refused for a while', { sandbox: 'True', since: 7200, refused: 300 }, 300],
  ['they are refused for days', { sandbox: 'True', since: 90_000, refused: 86_400 }, 900],
  ['nothing says since when', { sandbox: 'True', since: 60 }, 60],
])('attempts become rare while pods are refused for their sandbox: %s', (_, given, seconds) => {
  const { sandbox, since = 0, refused: refusedFor } = given;
  const condition = { type: 'SandboxReady', status: sandbox, lastTransitionTime: ago(since) };
  const assistant = { status: { conditions: sandbox === undefined ? [] : [condition] } };
  const failure = {
    type: 'ReplicaFailure',
    status: 'True',
    message: POLICY,
    ...(refusedFor === undefined ? {} : { lastTransitionTime: ago(refusedFor) }),
  };
  const deployment = { metadata: { name: 'ledger' }, status: { conditions: [failure] } };
  const waitMs = waitOf(assistant as unknown as Assistant, deployment as unknown as Deployment, NOW);
  expect(waitMs).toBe(seconds * 1000);
});

test('after a first attempt that came too early the next ones follow soon, and then more and more rarely', async () => {
  const since = Date.parse('2026-03-01T12:00:00Z');
  let now = since + 2_000;
  const asked: number[] = [];
  const deployment = refused(POLICY) as { metadata: { annotations?: object } };
  const condition = {
    type: 'SandboxReady',
    status: 'True',
    lastTransitionTime: new Date(since).toISOString(),
  };
  const assistant = { status: { conditions: [condition] } } as unknown as Assistant;
  const context = {
    names,
    now: () => new Date(now).toISOString(),
    writer: {
      async merge(_resource: unknown, _object: unknown, change: { metadata: { annotations: object } }) {
        deployment.metadata.annotations = change.metadata.annotations;
        asked.push((now - since) / 1_000);
      },
    },
  } as unknown as Context;
  while (now < since + 3_600_000)
    now += (await askAgain(context, assistant, deployment as Deployment, new AbortController().signal)) ?? 0;
  expect(asked).toEqual([2, 7, 14, 28, 56, 112, 224, 448, 896, 1_792, 2_692, 3_592]);
});

test('an attempt whose time is still to come delays no other', async () => {
  const year = 365 * 86_400_000;
  const annotations: Record<string, string> = { [ANNOTATION.retried]: new Date(NOW + year).toISOString() };
  const condition = { type: 'SandboxReady', status: 'True', lastTransitionTime: ago(40) };
  const context = {
    names,
    now: () => new Date(NOW).toISOString(),
    writer: {
      async merge(_resource: unknown, _object: unknown, change: { metadata: { annotations: object } }) {
        Object.assign(annotations, change.metadata.annotations);
      },
    },
  } as unknown as Context;
  const assistant = { status: { conditions: [condition] } } as unknown as Assistant;
  const deployment = { ...refused(POLICY), metadata: { name: 'ledger', annotations } } as Deployment;
  expect(await askAgain(context, assistant, deployment, new AbortController().signal)).toBe(40_000);
  expect(annotations).toEqual({ [ANNOTATION.retried]: new Date(NOW).toISOString() });
});
