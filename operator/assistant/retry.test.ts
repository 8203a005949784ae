import { expect, test } from 'vitest';
import type { Deployment } from '../kinds.ts';
import { refusedForSandbox } from './retry.ts';

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
