/** What the operator's own ServiceAccount may write to, asked of a real API server with the chart's roles and fence. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { type ApiServer, startApiServer } from '../../operator/testing/api-server.ts';
import { eventually } from '../../operator/testing/eventually.ts';
import { findTool } from '../cluster/tools.ts';
import { finish, type KubeObject } from './kube.ts';

const CHART = resolve(import.meta.dirname, '../../charts/space');
const CAPSULE = 'home-household-0123abcd';
const OTHER_CAPSULE = 'cabin-household-4567cdef';

const COLLECTIONS: Readonly<Record<string, string>> = {
  ServiceAccount: 'api/v1/namespaces/home/serviceaccounts',
  ClusterRole: 'apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: 'apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  Role: 'apis/rbac.authorization.k8s.io/v1/namespaces/home/roles',
  RoleBinding: 'apis/rbac.authorization.k8s.io/v1/namespaces/home/rolebindings',
  ValidatingAdmissionPolicy: 'apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: 'apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
};

let directory: string;
let server: ApiServer;
let token: string;

const namespace = (name: string, labels: object = {}, annotations: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels, annotations },
});
const ofCapsule = (space: string) => ({
  'platform.space/space': space,
  'platform.space/capsule': 'household',
});
const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'note' } };
const attester = {
  name: 'attest',
  image: 'registry.test/attester:1',
  command: ['/attest'],
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    runAsNonRoot: true,
    seccompProfile: { type: 'RuntimeDefault' },
  },
};
const probe = (spec: object = {}, labels: object = { 'platform.space/component': 'sandbox-probe' }) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'sandbox-probe-x', labels },
  spec: {
    runtimeClassName: 'gvisor',
    automountServiceAccountToken: false,
    containers: [attester],
    ...spec,
  },
});
const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'note' } };
const bindSecrets = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  metadata: { name: 'secrets' },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'home-capsule-secrets' },
  subjects: [{ kind: 'ServiceAccount', name: 'home-operator', namespace: 'home' }],
};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-fence-'));
  const helm = await findTool('helm', directory);
  server = await startApiServer();
  const create = (path: string, body: unknown) => server.client.call({ method: 'POST', path, body });
  for (const made of [
    namespace('home', { 'platform.space/space': 'home' }),
    namespace('home-services', { 'platform.space/space': 'home' }),
    namespace(CAPSULE, ofCapsule('home')),
    namespace(OTHER_CAPSULE, ofCapsule('cabin')),
    namespace('home-stripped', {}, { 'platform.space/owner-uid': 'of a Capsule' }),
  ])
    await create('/api/v1/namespaces', made);
  const { stdout } = await finish(helm, [
    ...['template', 'home', CHART, '--namespace', 'home', '--no-hooks'],
    ...['--set', 'sandbox.attester.image=registry.test/attester:1'],
  ]);
  await create('/apis/node.k8s.io/v1/runtimeclasses', { metadata: { name: 'gvisor' }, handler: 'runsc' });
  for (const object of parseAllDocuments(stdout).map((document) => document.toJS() as KubeObject | null)) {
    const collection = object === null ? undefined : COLLECTIONS[object.kind];
    const generated =
      object?.kind.startsWith('Validating') === true && object.metadata.name !== 'home-operator-fence';
    if (collection !== undefined && !generated) await create(`/${collection}`, object);
  }
  const asked = await server.client.call<{ status: { token: string } }>({
    method: 'POST',
    path: '/api/v1/namespaces/home/serviceaccounts/home-operator/token',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  token = asked.status.token;
  // A policy holds a moment after it was made.
  await eventually(
    async () => (await asOperator('POST', '/api/v1/namespaces/default/configmaps', configMap)).fenced,
    {
      what: 'the fence to hold',
    },
  );
}, 300_000);

afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Nothing is changed: the API server decides, and stores nothing. */
async function asOperator(method: string, path: string, body?: object) {
  const asked = request(`${server.url}${path}?dryRun=All`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
    },
    rejectUnauthorized: false, // a server of this test's own, on loopback
  });
  asked.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(asked, 'response');
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return {
    status: response.statusCode as number,
    fenced: text.includes("writes to its Capsules' namespaces only"),
  };
}

const core = (place: string, plural: string) => `/api/v1/namespaces/${place}/${plural}`;
const bindings = (place: string) => `/apis/rbac.authorization.k8s.io/v1/namespaces/${place}/rolebindings`;

describe('the operator may', () => {
  it.each([
    [
      'make a namespace for a Capsule',
      'POST',
      '/api/v1/namespaces',
      namespace('home-new', ofCapsule('home')),
    ],
    ['write into the namespace of its Capsule', 'POST', core(CAPSULE, 'configmaps'), configMap],
    ['bind its role on Secrets there', 'POST', bindings(CAPSULE), bindSecrets],
    ['keep Secrets beside its Capsules', 'POST', core('home', 'secrets'), secret],
    ['probe the sandbox beside its Capsules', 'POST', core('home', 'pods'), probe()],
    ['take a namespace of its Capsule down', 'DELETE', `/api/v1/namespaces/${CAPSULE}`, undefined],
    [
      'put the labels of a namespace back that bears its mark',
      'PATCH',
      '/api/v1/namespaces/home-stripped',
      { metadata: { labels: ofCapsule('home') } },
    ],
  ])('%s', async (_, method, path, body) => {
    expect((await asOperator(method, path, body)).status).toBeLessThan(300);
  });
});

describe('the operator may not', () => {
  it.each([
    ['make a namespace of another kind', 'POST', '/api/v1/namespaces', namespace('elsewhere')],
    [
      'make one for a Capsule of another Space',
      'POST',
      '/api/v1/namespaces',
      namespace('x', ofCapsule('cabin')),
    ],
    ['write where no Capsule is', 'POST', core('default', 'configmaps'), configMap],
    ['write beside the services', 'POST', core('home-services', 'configmaps'), configMap],
    ['help itself to the Secrets of the services', 'POST', bindings('home-services'), bindSecrets],
    ['bind its role on Secrets in its own namespace', 'POST', bindings('home'), bindSecrets],
    ['make a pod that is no probe', 'POST', core('home', 'pods'), probe({}, {})],
    [
      'run anything but the attester as a probe',
      'POST',
      core('home', 'pods'),
      probe({ containers: [{ ...attester, image: 'registry.test/other:1' }] }),
    ],
    ['run a probe outside the sandbox', 'POST', core('home', 'pods'), probe({ runtimeClassName: undefined })],
    [
      'read a Secret by mounting it into a probe',
      'POST',
      core('home', 'pods'),
      probe({ volumes: [{ name: 'secret', secret: { secretName: 'x' } }] }),
    ],
    [
      'take variables of a Secret into a probe',
      'POST',
      core('home', 'pods'),
      probe({ containers: [{ ...attester, envFrom: [{ secretRef: { name: 'x' } }] }] }),
    ],
    [
      'start something before a probe',
      'POST',
      core('home', 'pods'),
      probe({ initContainers: [{ ...attester, name: 'first' }] }),
    ],
    ['place a probe itself', 'POST', core('home', 'pods'), probe({ nodeName: 'n1' })],
    ['write into the Capsule of another Space', 'POST', core(OTHER_CAPSULE, 'configmaps'), configMap],
    ['take one of those down', 'DELETE', `/api/v1/namespaces/${OTHER_CAPSULE}`, undefined],
    [
      'make a namespace its own by labels',
      'PATCH',
      '/api/v1/namespaces/default',
      { metadata: { labels: ofCapsule('home') } },
    ],
  ])('%s: the fence refuses', async (_, method, path, body) => {
    expect(await asOperator(method, path, body)).toEqual({
      status: expect.toBeOneOf([403, 422]),
      fenced: true,
    });
  });

  it.each([
    ['read a Secret of the services', 'GET', core('home-services', 'secrets/db-admin')],
    ['list the Secrets of its own namespace', 'GET', core('home', 'secrets')],
    ['make a pod in a Capsule', 'POST', core(CAPSULE, 'pods'), probe()],
    ['make a pod beside the services', 'POST', core('home-services', 'pods'), probe()],
    ['read a Secret of a Capsule before it has bound its role there', 'GET', core(CAPSULE, 'secrets/x')],
  ])('%s: it has no role for it', async (_, method, path, body?: object) => {
    expect(await asOperator(method, path, body)).toEqual({ status: 403, fenced: false });
  });
});
