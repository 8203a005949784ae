/** Somebody removes rights of the operator: conditions say what it cannot read, and everything continues once it can. */
import { expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { secretsRoleName } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import { ApiError } from './runtime/errors.ts';
import { pathOf, type Resource } from './runtime/kube-object.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import { deny } from './testing/policies.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, ROLE_BINDING, SECRET } = kinds;
const RBAC = 'rbac.authorization.k8s.io';
const CLUSTER_ROLE: Resource = {
  ...kinds.ROLE,
  plural: 'clusterroles',
  kind: 'ClusterRole',
  namespaced: false,
};
const CLUSTER_BINDING: Resource = {
  ...CLUSTER_ROLE,
  plural: 'clusterrolebindings',
  kind: 'ClusterRoleBinding',
};
const ACCOUNT: Resource = { ...kinds.SECRET, plural: 'serviceaccounts', kind: 'ServiceAccount' };
const READY = 'True Ready';
/** Everything but Secrets, of which the operator reads those in its own namespaces and where it bound its role. */
const REST = [
  { apiGroups: [''], resources: ['namespaces', 'pods', 'nodes', 'services', 'configmaps'], verbs: ['*'] },
  { apiGroups: [''], resources: ['resourcequotas', 'limitranges'], verbs: ['*'] },
  {
    apiGroups: ['apps', 'platform.space', 'networking.k8s.io', 'node.k8s.io', RBAC],
    resources: ['*'],
    verbs: ['*'],
  },
  {
    apiGroups: ['admissionregistration.k8s.io', 'coordination.k8s.io', 'events.k8s.io'],
    resources: ['*'],
    verbs: ['*'],
  },
];
const SECRETS = [{ apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch', 'delete'] }];

let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let subjects: readonly object[];
let account: ApiClient;

eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  const { namespace, systemNamespace } = space.names;
  subjects = [{ kind: 'ServiceAccount', name: 'operator', namespace: systemNamespace }];
  await create(ACCOUNT, { metadata: { name: 'operator' } }, systemNamespace);
  const role = secretsRoleName(space.names.space);
  await create(CLUSTER_ROLE, { metadata: { name: role }, rules: SECRETS });
  await create(CLUSTER_ROLE, { metadata: { name: `${namespace}-rest` }, rules: REST });
  await create(CLUSTER_BINDING, bindingOf(`${namespace}-rest`));
  for (const place of [namespace, systemNamespace]) await create(ROLE_BINDING, bindingOf(role), place);
  const { status } = await create<{ status: { token: string } }>(
    { ...ACCOUNT, plural: 'serviceaccounts/operator/token' },
    { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
    systemNamespace,
  );
  account = environment.server.clientOf(status.token);
  await space.start({ client: account });
});

/** A right that was withdrawn is gone a moment later, and the operator is to look after that. */
const unreadable = (place: string) =>
  eventually(
    () =>
      account.call({ method: 'GET', path: pathOf(SECRET, place, 'any') }).then(
        () => false,
        (error: unknown) => error instanceof ApiError && error.status === 403,
      ),
    { what: `Secrets in ${place} to be unreadable` },
  );

const create = <T>(resource: Resource, body: unknown, namespace?: string) =>
  environment.server.client.call<T>({ method: 'POST', path: pathOf(resource, namespace), body });

const bindingOf = (role: string) => ({
  metadata: { name: role },
  roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: role },
  subjects,
});

/** Deletes a binding; returns a function that restores it. */
async function withdraw(place: string) {
  const role = secretsRoleName(space.names.space);
  await space.delete(ROLE_BINDING, role, place);
  await unreadable(place);
  return () => create(ROLE_BINDING, bindingOf(role), place);
}

const BANK = {
  kind: 'password',
  label: 'Key of the bank',
  description: 'Reads the accounts.',
  help_url: 'https://bank.org/keys',
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/accounts' }],
  header: 'Authorization',
};

test('Secrets of the Space’s own namespace that may not be read are reported where a stored input is bound', async () => {
  await space.settled();
  const restore = await withdraw(space.names.namespace);
  const storedInputs = { bank: { secretKeyRef: { name: 'bank', key: 'value' } } };
  await space.patch(ASSISTANT, 'ledger', {
    spec: { storedInputs, manifest: { ...manifest('ledger'), stored_inputs: { bank: BANK } } },
  });
  await space.becomes(ASSISTANT, 'ledger', 'InputsBound', 'False ReadRefused');
  const message = await space.message(ASSISTANT, 'ledger', 'InputsBound');
  expect(message).toContain('cannot get resource \\"secrets\\"');
  expect(message).toContain(`in the namespace \\"${space.names.namespace}\\"`);
  await restore();
  await space.becomes(ASSISTANT, 'ledger', 'InputsBound', 'False InputSecretNotFound');
});

test('Secrets of the operator’s own namespace that may not be read are reported by a Capsule, also in deletion', async () => {
  await space.capsule(home);
  await space.becomes(CAPSULE, home, 'Ready', READY);
  const restore = await withdraw(space.names.systemNamespace);
  await space.patch(CAPSULE, home, { spec: { quota: { database: '2Gi' } } });
  await space.becomes(CAPSULE, home, 'DatabaseReady', 'False ReadRefused');
  await space.delete(CAPSULE, home);
  await space.becomes(CAPSULE, home, 'Finalized', 'False ReadRefused');
  await restore();
  await space.goes(CAPSULE, home);
});

test('Secrets of a Capsule that may not be read are reported by its Assistant, of which nothing is lost', async () => {
  const namespace = await space.settled();
  const role = pathOf(CLUSTER_ROLE, undefined, secretsRoleName(space.names.space));
  const allow = (rules: readonly object[]) =>
    environment.server.client.call({
      method: 'PATCH',
      path: role,
      contentType: 'application/merge-patch+json',
      body: { rules },
    });
  await allow([]);
  await unreadable(namespace);
  await space.patch(ASSISTANT, 'ledger', { spec: { replicas: 2 } });
  await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False ReadRefused');
  expect(await space.message(ASSISTANT, 'ledger', 'WorkloadReady')).toContain(namespace);
  await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', READY);
  await allow(SECRETS);
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
});

test('Secrets that may not be read, since a RoleBinding is gone that nobody may write again, count as there: no data is left behind', async () => {
  await space.capsule(home);
  await space.becomes(CAPSULE, home, 'Ready', READY);
  const before = await environment.databases();
  await space.assistant('ledger', { capsule: home });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  const filled = await environment.databases();
  expect(filled).not.toEqual(before);
  const namespace = space.namespaceOf(home);
  const lift = await deny(environment.server.client, space.names.namespace, {
    group: RBAC,
    resource: 'rolebindings',
    operations: ['CREATE', 'UPDATE'],
    where: `request.namespace == "${namespace}"`,
    message: '"not now"',
  });
  await space.delete(ROLE_BINDING, 'space-operator', namespace);
  await space.becomes(CAPSULE, home, 'NamespaceReady', 'False WriteRefused');
  await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False ReadRefused');
  await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', READY);
  await space.delete(ASSISTANT, 'ledger');
  await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False ReadRefused');
  expect(await space.message(ASSISTANT, 'ledger', 'Finalized')).toContain(namespace);
  expect(await environment.databases()).toEqual(filled);
  await lift();
  await space.goes(ASSISTANT, 'ledger');
  expect(await environment.databases()).toEqual(before);
  expect(await space.list(SECRET, namespace)).toEqual([]);
});
