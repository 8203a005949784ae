/** What one look at an Assistant writes into its status, before anything of a cluster is asked. */
import { Secret } from '@space/contracts/secret';
import { type AssistantStatus, checkManifest } from '@space/manifests';
import { expect, test } from 'vitest';
import { Usages } from '../capsule/usages.ts';
import { type Finding, no, toConditions, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT_FINALIZER, LABEL } from '../names.ts';
import { ApiError, ReadRefusedError } from '../runtime/errors.ts';
import { type KubeObject, makeKey } from '../runtime/kube-object.ts';
import { makeStores, type Stores } from '../stores.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import { reconcileAssistant } from './controller.ts';
import { describeWorkload, type Workload } from './identity.ts';
import { deploymentObject } from './pod-template.ts';

const NOW = '2026-03-01T12:00:00Z';
const NONE = new ApiError({ status: 404, reason: 'NotFound', message: 'there is none' });
const AWAY = new ApiError({ status: 503, reason: 'ServiceUnavailable', message: 'away' });
const UNREAD = new ReadRefusedError({ status: 403, reason: 'Forbidden', message: 'no right to read' });
const principal = {
  metadata: { name: 'capsule-household-database' },
  data: { principal: Buffer.from('spc_dbp_x').toString('base64') },
};

function workloadOf(hosts: readonly string[], status?: AssistantStatus): Workload {
  const check = checkManifest(manifest('ledger', { network: { allowed_hosts: hosts } }));
  if (!check.ok) throw new Error(JSON.stringify(check.errors));
  const metadata = {
    ...{ name: 'ledger', namespace: names.namespace, uid: 'one', resourceVersion: '1', generation: 1 },
    finalizers: [ASSISTANT_FINALIZER],
  };
  const spec = { capsule: 'household', image: 'registry.test/ledger:1', manifest: check.manifest };
  return describeWorkload(names, { metadata, spec, ...(status && { status }) }, check.manifest);
}

/** The stores with the Assistant, its Capsule, and the Services that pods reach. */
function storesWith({ assistant }: Workload, ready: boolean): Stores {
  const stores = makeStores();
  stores.assistants.set(assistant);
  const met = ready ? yes('Ready', '') : no('NamespaceTerminating', '');
  const findings = { NamespaceReady: met, NetworkReady: met, DatabaseReady: met };
  stores.capsules.set({
    metadata: { name: 'household', namespace: names.namespace, uid: 'c', resourceVersion: '1' },
    spec: {},
    status: { conditions: toConditions(findings, [], 1, () => NOW) },
  } as never);
  for (const component of ['postgres', 'canary'])
    stores.services.set({
      metadata: {
        ...{ name: component, namespace: names.servicesNamespace, uid: component, resourceVersion: '1' },
        labels: { [LABEL.space]: names.space, [LABEL.component]: component },
      },
      spec: { clusterIP: '10.96.0.1' },
    } as never);
  return stores;
}

/** Looks at the Assistant once; returns the conditions of each status that is written, and the error. */
async function look(stores: Stores, calls: { readonly create: () => Promise<void> }) {
  const written: Record<string, string>[] = [];
  const context = {
    ...{ names, stores },
    client: {
      call: async ({ path }: { path: string }) => {
        if (path.endsWith('/secrets/capsule-household-database')) return principal;
        if (path.endsWith('/assistants')) return { items: stores.assistants.list() };
        throw path.includes('/secrets/') ? NONE : UNREAD;
      },
    },
    writer: {
      isApplied: () => false,
      apply: async () => 'created',
      merge: async (_resource: unknown, object: KubeObject) => object,
      create: async (_resource: unknown, object: KubeObject) => {
        await calls.create();
        return { ...object, metadata: { ...object.metadata, resourceVersion: '2' } };
      },
      applyStatus: async (_resource: unknown, _object: unknown, { conditions = [] }: AssistantStatus) => {
        const says = conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`] as const);
        written.push(Object.fromEntries(says));
      },
    },
    events: { record: () => {} },
    database: { createApp: async () => new Secret('postgresql://role:secret@main:5432/role') },
    gateways: { narrow: async () => ({ serving: 0, acknowledged: 0, reentry: [], resealed: {} }) },
    appUsages: new Usages(() => 0),
    ...{ spaceCa: async () => undefined, databaseCa: async () => undefined },
    ...{ gate: () => yes('SandboxAvailable', ''), network: () => yes('Ready', '') },
    ...{ admission: async () => undefined, now: () => NOW, sweepMs: () => 600_000 },
  } as unknown as Context;
  const { signal } = new AbortController();
  const looked = reconcileAssistant(context, makeKey(names.namespace, 'ledger'), signal);
  return { error: await looked.catch((error: unknown) => error), written };
}

test('a refusal in the last step leaves in the status that there is a database', async () => {
  const stores = storesWith(workloadOf([]), true);
  const { written, error } = await look(stores, { create: async () => {} });
  expect(written.map(({ DatabaseReady }) => DatabaseReady)).toEqual(['Unknown Starting', 'True Ready']);
  expect(written.at(-1)).toMatchObject({ EgressReady: 'True NotNeeded', WorkloadReady: 'False ReadRefused' });
  expect(error).toBe(UNREAD);
});

test.each<[string, string, Finding, string]>([
  ['goes on to say', 'a.org', no('GatewayUnavailable', ''), 'False GatewayUnavailable'],
  ['says nothing of another manifest', 'b.org', no('HostNotEnforceable', ''), 'True Ready'],
])('while nobody knows what the gateway has, the status %s', async (_, host, said, expected) => {
  const { digest } = workloadOf([host]);
  const running = workloadOf(['a.org'], {
    manifest: { id: 'ledger', version: '1.0.0', digest: `sha256:${digest}` },
    conditions: toConditions({ EgressReady: said }, [], 1, () => NOW),
  });
  const stores = storesWith(running, false);
  const { desired } = deploymentObject(running, {
    database: { digest: 'd', verified: false, serverCa: false },
    ...{ postgresAddress: '10.96.0.1', canaryAddresses: ['10.96.0.1'] },
    egress: { address: '10.96.0.1', principalDigest: 'p', inputs: [] },
  });
  const metadata = { ...desired.metadata, uid: 'd', resourceVersion: '1' };
  stores.deployments.set({ ...desired, metadata } as never);
  const { written, error } = await look(stores, { create: () => Promise.reject(AWAY) });
  expect(written).toMatchObject([{ CapsuleReady: 'False CapsuleNotReady', EgressReady: expected }]);
  expect(error).toBe(AWAY);
});
