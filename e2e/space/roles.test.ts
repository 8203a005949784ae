/** What each of the chart's roles for people may do, according to a real API server with the chart's policies. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { eventually } from '../../testing/eventually.ts';
import { type Caller, named, type PolicyServer, startPolicyServer } from './testing/policy-server.ts';

const GROUP = 'platform.space';
const PLACE = `/apis/${GROUP}/v1/namespaces/home`;
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const ROLES = ['viewer', 'deployer', 'capsule-admin', 'admin'] as const;
type Role = (typeof ROLES)[number];

let policyServer: PolicyServer;
const people = new Map<Role, Caller>();

const capsule = (name: string) => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Capsule',
  metadata: { name },
  spec: {},
});
const assistant = (name: string) => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Assistant',
  metadata: { name },
  spec: { capsule: 'household', image: 'registry.test/x:1', manifest: manifest('ledger') },
});
const annotated = (key: string) => ({ metadata: { annotations: { [`${GROUP}/${key}`]: 'true' } } });
const LEDGER = `${PLACE}/assistants/ledger`;
const HOUSEHOLD = `${PLACE}/capsules/household`;

/** A request, and the least role that may make it. */
const ACTS: readonly [string, Role | undefined, string, string, object?][] = [
  ['see Capsules', 'viewer', 'GET', `${PLACE}/capsules`],
  ['see an Assistant', 'viewer', 'GET', LEDGER],
  ['make an Assistant', 'deployer', 'POST', `${PLACE}/assistants`, assistant('new')],
  ['change an Assistant', 'deployer', 'PATCH', LEDGER, { spec: { image: 'registry.test/x:2' } }],
  ['delete an Assistant', 'deployer', 'DELETE', LEDGER],
  ['delete all Assistants', 'deployer', 'DELETE', `${PLACE}/assistants`],
  ['change a Capsule', 'capsule-admin', 'PATCH', HOUSEHOLD, { spec: { suspend: true } }],
  ['approve powers', 'capsule-admin', 'PATCH', LEDGER, annotated('approved')],
  ['rotate a password', 'capsule-admin', 'PATCH', LEDGER, annotated('rotate')],
  ['make a Capsule', 'admin', 'POST', `${PLACE}/capsules`, capsule('new')],
  ['delete a Capsule', 'admin', 'DELETE', HOUSEHOLD],
  ['open an Assistant', 'admin', 'PATCH', LEDGER, annotated('open')],
  ['open a Capsule', 'admin', 'PATCH', HOUSEHOLD, annotated('open')],
  ['see Events', 'viewer', 'GET', '/apis/events.k8s.io/v1/namespaces/home/events'],
  ['write a status', undefined, 'PATCH', `${HOUSEHOLD}/status`, { status: {} }],
  ['read a Secret', undefined, 'GET', '/api/v1/namespaces/home/secrets/x'],
  ['make a Secret', undefined, 'POST', '/api/v1/namespaces/home/secrets', named('x')],
  ['make a pod', undefined, 'POST', '/api/v1/namespaces/home/pods', named('x')],
  [
    'see Capsules of another namespace',
    undefined,
    'GET',
    PLACE.replace(/home$/, 'default').concat('/capsules'),
  ],
];

beforeAll(async () => {
  policyServer = await startPolicyServer();
  await policyServer.create(`${PLACE}/capsules`, capsule('household'));
  await policyServer.create(`${PLACE}/assistants`, assistant('ledger'));
  for (const role of ROLES) {
    const name = `a-${role}`;
    people.set(role, await policyServer.caller(name));
    await policyServer.create(`${RBAC}/namespaces/home/rolebindings`, {
      ...named(name),
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `home-space-${role}` },
      subjects: [{ kind: 'ServiceAccount', name, namespace: 'home' }],
    });
  }
  // Rights are known, and policies are in force, a moment after they were created.
  const known = async () => {
    for (const ask of people.values()) expect((await ask('GET', LEDGER)).status).toBe(200);
    expect((await people.get('deployer')?.('PATCH', LEDGER, annotated('open')))?.status).toBe(403);
    return true;
  };
  await eventually(known, { what: 'roles and policies to hold' });
}, 900_000);

afterAll(() => policyServer?.stop());

describe.each(ROLES)('who is %s', (role) => {
  it.each(ACTS)('may %s from %s on', async (_, least, method, path, body) => {
    const may = least !== undefined && ROLES.indexOf(role) >= ROLES.indexOf(least);
    const { status } = (await people.get(role)?.(method, path, body)) ?? { status: 0 };
    expect(status).toEqual(may ? expect.toBeOneOf([200, 201]) : 403);
  });
});

/** Further roles: in each namespace where they are bound, they allow this and nothing else. */
const SECRETS = '/api/v1/namespaces/home/secrets';
const APPS = '/apis/apps/v1/namespaces/home';
const CONFIG = '/api/v1/namespaces/home/configmaps';
describe.each([
  ['inputs', ['make an input', 'read an input', 'change an input']],
  ['runtime', ['list programs', 'list servers', 'list pods', 'read a ConfigMap']],
  ['cluster', ['list nodes', 'list runtime classes']],
])('who has the role %s', (role, may) => {
  it('may do this and nothing else', async () => {
    const name = `only-${role}`;
    const ask = await policyServer.caller(name);
    const roleRef = {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: `home-space-${role}`,
    };
    const subjects = [{ kind: 'ServiceAccount', name, namespace: 'home' }];
    const where = role === 'cluster' ? 'clusterrolebindings' : 'namespaces/home/rolebindings';
    await policyServer.create(`${RBAC}/${where}`, { ...named(name), roleRef, subjects });
    const made = named(`${role}.ledger.bank`);
    const acts = [
      ['make an input', 'POST', SECRETS, made],
      ['read an input', 'GET', `${SECRETS}/${made.metadata.name}`],
      ['change an input', 'PATCH', `${SECRETS}/${made.metadata.name}`, { data: {} }],
      ['list inputs', 'GET', SECRETS],
      ['delete an input', 'DELETE', `${SECRETS}/${made.metadata.name}`],
      ['list programs', 'GET', `${APPS}/deployments`],
      ['list servers', 'GET', `${APPS}/statefulsets`],
      ['change a program', 'PATCH', `${APPS}/deployments/x`, {}],
      ['list pods', 'GET', '/api/v1/namespaces/home/pods'],
      ['run a command in a pod', 'POST', '/api/v1/namespaces/home/pods/x/exec'],
      ['read a log', 'GET', '/api/v1/namespaces/home/pods/x/log'],
      ['read a ConfigMap', 'GET', `${CONFIG}/kube-root-ca.crt`],
      ['list ConfigMaps', 'GET', CONFIG],
      ['list nodes', 'GET', '/api/v1/nodes'],
      ['change a node', 'PATCH', '/api/v1/nodes/x', {}],
      ['list runtime classes', 'GET', '/apis/node.k8s.io/v1/runtimeclasses'],
      ['see Capsules', 'GET', `${PLACE}/capsules`],
    ] as const;
    await eventually(
      async () => {
        const allowed: string[] = [];
        for (const [says, method, path, body] of acts)
          if ((await ask(method, path, body)).status !== 403) allowed.push(says);
        return JSON.stringify(allowed) === JSON.stringify(may);
      },
      { what: `exactly the rights of ${role}` },
    );
  });
});

it('are part of Kubernetes’ own roles view and admin, and of no other', async () => {
  const { items } = await policyServer.server.client.call<{ items: { metadata: { name: string } }[] }>({
    method: 'GET',
    path: `${RBAC}/clusterroles`,
    query: { labelSelector: 'platform.space/space=home' },
  });
  const aggregated = items.flatMap(({ metadata }) => {
    const labels = (metadata as { labels?: Record<string, string> }).labels ?? {};
    const into = Object.keys(labels).filter((key) => key.startsWith('rbac.authorization.k8s.io/'));
    return into.map((key) => [metadata.name, key.replace('rbac.authorization.k8s.io/aggregate-to-', '')]);
  });
  expect(aggregated.sort()).toEqual([
    ['home-space-admin', 'admin'],
    ['home-space-viewer', 'view'],
  ]);
});

it('a Role that names one Capsule makes a deployer of that Capsule alone', async () => {
  const assistants = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
  const ask = await policyServer.caller('of-the-lab', [
    { apiGroups: [GROUP], resources: ['assistants'], verbs: assistants },
    { apiGroups: [GROUP], resources: ['capsules'], resourceNames: ['lab'], verbs: ['get', 'deploy'] },
  ]);
  const { spec, ...rest } = assistant('mine');
  await eventually(
    async () =>
      (await ask('POST', `${PLACE}/assistants`, { ...rest, spec: { ...spec, capsule: 'lab' } })).status ===
      201,
    { what: 'its Role is known' },
  );
  for (const [method, path, body] of [
    ['POST', `${PLACE}/assistants`, assistant('mine')],
    ['PATCH', LEDGER, { spec: { suspend: true } }],
    ['DELETE', LEDGER, undefined],
  ] as const)
    expect(await ask(method, path, body)).toEqual({
      status: 403,
      text: expect.stringContaining('capsules.platform.space/household'),
    });
});
