/** The operator's own check of the chart's admission policies, with its own rights, on a real API server. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { admissionLook, POLICY, POLICY_BINDING } from '../../operator/admission.ts';
import type { ApiClient } from '../../operator/runtime/client.ts';
import { pathOf } from '../../operator/runtime/kube-object.ts';
import { type PolicyServer, startPolicyServer } from './testing/policy-server.ts';

let policyServer: PolicyServer;
beforeAll(async () => {
  policyServer = await startPolicyServer();
}, 600_000);
afterAll(() => policyServer?.stop());

async function look() {
  const account = '/api/v1/namespaces/home-system/serviceaccounts/home-operator/token';
  const { status } = (await policyServer.create(account, { spec: {} })) as { status: { token: string } };
  const names = { space: 'home', systemNamespace: 'home-system' };
  const client = policyServer.server.clientOf(status.token);
  const asked: string[] = [];
  const call: ApiClient['call'] = (request) => {
    asked.push(request.path);
    return client.call(request);
  };
  const find = admissionLook({ client: { ...client, call }, names }, () => 0);
  return { found: await find(new AbortController().signal), asked };
}

it('finds all policies of the chart in force, and names one that is not', async () => {
  const { found, asked } = await look();
  expect(found).toBeUndefined();
  // A policy that is missing in the lists would be requested by its name.
  expect(asked.slice(1).sort()).toEqual([POLICY_BINDING, POLICY].map((resource) => pathOf(resource)).sort());
  const { client } = policyServer.server;
  await client.call({
    method: 'PATCH',
    path: pathOf(POLICY_BINDING, undefined, 'home-operator-lead-system'),
    contentType: 'application/merge-patch+json',
    body: { spec: { validationActions: ['Audit'] } },
  });
  expect((await look()).found).toMatchObject({
    reason: 'PolicyNotInForce',
    message: expect.stringContaining('"home-operator-lead-system" differs from that of the release'),
  });
  await client.call({ method: 'DELETE', path: pathOf(POLICY, undefined, 'home-sandbox'), body: {} });
  expect((await look()).found).toMatchObject({
    message: expect.stringContaining('ValidatingAdmissionPolicy "home-sandbox" does not exist'),
  });
});
