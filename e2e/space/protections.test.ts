/**
 * What not even an administrator can change by accident, according to a real API server with the chart's policies.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { DEFINITIONS, definition, FOREIGN_WALLS } from './testing/foreign.ts';
import {
  asOperator,
  type Caller,
  holdLease,
  named,
  type PolicyServer,
  startPolicyServer,
} from './testing/policy-server.ts';

const CAPSULE = 'home-household-0123abcd';
const OPENED = 'home-opened-0123abcd';
const STRANGER = 'cabin-household-4567cdef';
const policies = (namespace: string) => `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`;
const core = (namespace: string, rest: string) => `/api/v1/namespaces/${namespace}/${rest}`;
const allowAll = { ...named('allow-all'), spec: { podSelector: {}, egress: [{}], policyTypes: ['Egress'] } };
const ofCapsule = (space: string, capsule = 'household') => ({
  'platform.space/space': space,
  'platform.space/capsule': capsule,
});
const open = { 'platform.space/open': 'true' };

let policyServer: PolicyServer;
let administrator: Caller;
let operator: Caller;

beforeAll(async () => {
  policyServer = await startPolicyServer();
  administrator = await policyServer.administrator();
  operator = await asOperator(policyServer);
  await holdLease(policyServer, 'operator');
  const { create } = policyServer;
  const guarded = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  const owner = { 'platform.space/owner-uid': 'u' };
  await create('/api/v1/namespaces', named(CAPSULE, { ...ofCapsule('home'), ...guarded }, owner));
  await create('/api/v1/namespaces', named(OPENED, ofCapsule('home', 'opened'), open));
  await create('/api/v1/namespaces', named(STRANGER, ofCapsule('cabin')));
  for (const [group, plural, kind] of FOREIGN_WALLS)
    await create(DEFINITIONS, definition(group, plural, kind));
  const principal = (name: string, annotations: object) => ({
    ...named(name, ofCapsule('home'), { 'platform.space/owner-uid': 'u', ...annotations }),
    type: 'Opaque',
  });
  await create(core('home-system', 'secrets'), principal('capsule-household-database', {}));
  await create(core('home-system', 'secrets'), principal('capsule-opened-database', open));
  await create(core('home-system', 'secrets'), {
    ...named('bank', { 'platform.space/capsule': 'household' }),
    type: 'platform.space/stored-input',
  });
  // A refusal by RBAC, which also takes a moment to know the callers, does not come from these policies.
  const holds = async () => {
    expect(await administrator('POST', policies(CAPSULE), allowAll)).toEqual(refused);
    expect(await administrator('DELETE', path(CAPSULE))).toEqual(refused);
    expect(await administrator('DELETE', core('home-system', 'secrets/capsule-household-database'))).toEqual(
      refused,
    );
    expect(await operator('POST', policies(CAPSULE), allowAll)).toEqual(done);
    return true;
  };
  await eventually(holds, { what: 'the policies to hold' });
}, 900_000);

afterAll(() => policyServer?.stop());

const refused = { status: 403, text: expect.stringContaining('platform.space/open=true') };
const done = { status: expect.toBeOneOf([200, 201]), text: expect.any(String) };
const path = (name: string) => `/api/v1/namespaces/${name}`;
const labels = (changes: object) => ({ metadata: { labels: changes } });

/** Each way to write a namespace's labels and annotations. */
const WAYS = ['', '/status', '/finalize'];
/** `finalize` accepts a PUT of the whole object, and no patch. */
async function change(ask: Caller, at: string, metadata: Marks, spec?: object) {
  if (!at.endsWith('/finalize')) return ask('PATCH', at, { metadata });
  const { text } = await ask('GET', at.replace('/finalize', ''));
  const { metadata: before, ...rest } = JSON.parse(text) as { metadata: Marks };
  const merged = (key: keyof Marks) =>
    Object.fromEntries(
      Object.entries({ ...before[key], ...metadata[key] }).filter(([, value]) => value !== null),
    );
  const after = { ...before, labels: merged('labels'), annotations: merged('annotations') };
  return ask('PUT', at, { ...rest, metadata: after, ...(spec && { spec }) });
}
interface Marks {
  readonly labels?: object;
  readonly annotations?: object;
}

describe('of a Capsule’s namespace', () => {
  it('nobody adds, changes or removes a network policy', async () => {
    expect(await administrator('POST', policies(CAPSULE), allowAll)).toEqual(refused);
    const quota = { ...named('more'), spec: { hard: { pods: '9999' } } };
    expect(await administrator('POST', core(CAPSULE, 'resourcequotas'), quota)).toEqual(refused);
    const limits = { ...named('more'), spec: { limits: [{ type: 'Pod', max: { cpu: '64' } }] } };
    expect(await administrator('POST', core(CAPSULE, 'limitranges'), limits)).toEqual(refused);
  });

  it.each(FOREIGN_WALLS)('nobody adds one of %s, %s', async (group, plural, kind) => {
    const wall = (namespace: string) =>
      administrator('POST', `/apis/${group}/v1/namespaces/${namespace}/${plural}`, {
        apiVersion: `${group}/v1`,
        kind,
        ...named('allow-all'),
      });
    await eventually(async () => (await wall(STRANGER)).status === 201, { what: 'the kind is served' });
    expect(await wall(CAPSULE)).toEqual(refused);
  });

  it.each([
    ['whose it is', { 'platform.space/capsule': 'mine' }],
    ['that it is one', { 'platform.space/capsule': null, 'platform.space/space': null }],
    ['what its pods may do', { 'pod-security.kubernetes.io/enforce': 'privileged' }],
    ['what other tools make of it', { 'admission.other.org/ignore': 'true' }],
  ])('nobody changes the labels that say %s', async (_, changes) => {
    for (const way of WAYS)
      expect([way, await change(administrator, `${path(CAPSULE)}${way}`, { labels: changes })]).toEqual([
        way,
        refused,
      ]);
  });

  it('nobody changes whose it is', async () => {
    const annotations = { 'platform.space/owner-uid': 'mine' };
    for (const way of WAYS)
      expect([way, await change(administrator, `${path(CAPSULE)}${way}`, { annotations })]).toEqual([
        way,
        refused,
      ]);
  });

  it('nobody has it end before what is in it', async () => {
    const at = `${path(CAPSULE)}/finalize`;
    expect(await change(administrator, at, {}, { finalizers: [] })).toEqual(refused);
    expect(await change(administrator, at, {})).toEqual(done);
    expect(await change(administrator, `${path(OPENED)}/finalize`, {}, { finalizers: [] })).toEqual(done);
  });

  it('the cluster’s controllers write its status', async () => {
    const controller = await policyServer.controller('namespace-controller');
    const { text } = await administrator('GET', path(CAPSULE));
    const status = { conditions: [{ type: 'NamespaceContentRemaining', status: 'True' }] };
    for (const way of ['status', 'finalize']) {
      const told = async () =>
        (await controller('PUT', `${path(CAPSULE)}/${way}`, { ...JSON.parse(text), status })).status === 200;
      await eventually(told, { what: `a controller writes its ${way}` });
    }
  });

  it('nobody says that it may have more than its quota, or has used less', async () => {
    const name = 'home-counted-0123abcd';
    const { client } = policyServer.server;
    const merge = (at: string, body: object) =>
      client.call({ method: 'PATCH', path: at, contentType: 'application/merge-patch+json', body });
    await policyServer.create('/api/v1/namespaces', named(name, ofCapsule('home', 'counted'), open));
    const hard = { 'count/configmaps': '1' };
    const quotas = core(name, 'resourcequotas');
    await policyServer.create(quotas, { ...named('counted'), spec: { hard } });
    await merge(path(name), { metadata: { annotations: { 'platform.space/open': null } } });
    const quota = `${quotas}/counted`;
    const { text } = await administrator('GET', quota);
    const status = { hard, used: { 'count/configmaps': '0' } };
    const { metadata, ...rest } = JSON.parse(text);
    const counted = { ...rest, metadata: { ...metadata, resourceVersion: undefined }, status };
    const closed = async () => (await administrator('PUT', `${quota}/status`, counted)).status === 403;
    await eventually(closed, { what: 'the namespace is closed' });
    // In a cluster whose controllers have no accounts of their own, they are this one user.
    const kind = { apiGroup: 'rbac.authorization.k8s.io', kind: 'User' };
    await policyServer.create(`/apis/rbac.authorization.k8s.io/v1/namespaces/${name}/rolebindings`, {
      ...named('counts'),
      roleRef: { ...kind, kind: 'ClusterRole', name: 'system:controller:resourcequota-controller' },
      subjects: [{ ...kind, name: 'system:kube-controller-manager' }],
    });
    const manager = policyServer.user('system:kube-controller-manager');
    const controller = await policyServer.controller('resourcequota-controller');
    for (const ask of [manager, controller]) {
      const known = async () => (await ask('PUT', `${quota}/status`, counted)).status === 200;
      await eventually(known, { what: 'a controller writes what is used' });
    }
    await expect(policyServer.create(quotas, { ...named('more'), spec: { hard } })).rejects.toThrow(
      'platform.space/open=true',
    );
    await merge(`${quota}/status`, { status });
    for (const body of [
      { status: { hard: { 'count/configmaps': '9' } } },
      { status: { used: null } },
      { metadata: { labels: { a: 'b' } } },
    ])
      expect(await administrator('PATCH', `${quota}/status`, body)).toEqual(refused);
    // The API server itself counts under a user name of its own, from a moment after that status was written.
    let made = 0;
    const counts = async () => {
      const { status: now } = await client.call<{ status: { used: object } }>({ method: 'GET', path: quota });
      if (JSON.stringify(now.used) === '{"count/configmaps":"1"}') return true;
      made += 1;
      await policyServer.create(core(name, 'configmaps'), named(`made-${made}`));
      return false;
    };
    await eventually(counts, { what: 'what is made to be counted' });
    await expect(policyServer.create(core(name, 'configmaps'), named('second'))).rejects.toThrow(
      'exceeded quota',
    );
  });

  it('nobody deletes it', async () => {
    expect(await administrator('DELETE', path(CAPSULE))).toEqual(refused);
  });

  it('the operator may do all of that', async () => {
    expect(await operator('POST', policies(CAPSULE), allowAll)).toEqual(done);
    const changes = labels({ 'pod-security.kubernetes.io/enforce': 'restricted' });
    expect(await operator('PATCH', path(CAPSULE), changes)).toEqual(done);
    expect(await operator('DELETE', path(CAPSULE))).toEqual(done);
  });

  it('an administrator may do that after opening it by a visible annotation', async () => {
    const annotations = { metadata: { annotations: open } };
    expect(await administrator('PATCH', path(CAPSULE), annotations)).toEqual(done);
    expect(await administrator('POST', policies(OPENED), allowAll)).toEqual(done);
    expect(await administrator('PATCH', path(OPENED), labels({ 'a.org/b': 'c' }))).toEqual(done);
    expect(await administrator('DELETE', path(OPENED))).toEqual(done);
  });

  it('objects that belong to no Capsule of this Space are not protected', async () => {
    expect(await administrator('POST', policies(STRANGER), allowAll)).toEqual(done);
    expect(await administrator('DELETE', path(STRANGER))).toEqual(done);
    expect(await administrator('POST', policies('default'), allowAll)).toEqual(done);
    // Other policies protect the network policies of the Space's own namespaces.
    expect(await administrator('POST', policies('home'), allowAll)).toEqual(done);
  });
});

describe('the marks of a Capsule’s namespace', () => {
  const forbidden = {
    status: 403,
    text: expect.stringContaining(
      'You need the verb create on capsules.platform.space in the namespace home',
    ),
  };
  const resources = WAYS.map((way) => `namespaces${way}`);
  const spaces = [{ apiGroups: [''], resources, verbs: ['get', 'create', 'update', 'patch'] }];
  const mark = { 'platform.space/owner-uid': 'u' };
  let tenant: Caller;
  beforeAll(async () => {
    tenant = await policyServer.caller('tenant');
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    await policyServer.create(`${rbac}/clusterroles`, { ...named('namespaces'), rules: spaces });
    await policyServer.create(`${rbac}/clusterrolebindings`, {
      ...named('namespaces'),
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'namespaces' },
      subjects: [{ kind: 'ServiceAccount', name: 'tenant', namespace: 'home' }],
    });
    await policyServer.create('/api/v1/namespaces', named('home-plain-0123abcd'));
    const known = async () => (await tenant('POST', '/api/v1/namespaces', named('mine'))).status === 201;
    await eventually(known, { what: 'the tenant may make namespaces' });
  });

  it.each([
    ['by its labels', 'any', ofCapsule('home'), {}],
    ['by its labels, opened by themselves', 'any', ofCapsule('home'), open],
    ['by its name and the mark of its Capsule', 'home-household-89abcdef', {}, mark],
    ['by all of them', 'home-household-89abcdef', ofCapsule('home'), mark],
  ])('nobody who only makes namespaces passes one off for it %s', async (_, name, labels, annotations) => {
    const copy = named(name, labels, annotations);
    expect(await tenant('POST', '/api/v1/namespaces', copy)).toEqual(forbidden);
    for (const way of WAYS)
      expect([
        way,
        await change(tenant, `${path('home-plain-0123abcd')}${way}`, { labels, annotations }),
      ]).toEqual([way, forbidden]);
    expect(await administrator('POST', '/api/v1/namespaces', copy)).toEqual(done);
  });

  it.each(['space', 'capsule'])('nor by the label %s, where the other one is there', async (label) => {
    const name = `without-${label}`;
    const { [`platform.space/${label}`]: missing, ...other } = ofCapsule('home') as Record<string, string>;
    await policyServer.create('/api/v1/namespaces', named(name, other));
    expect(await tenant('PATCH', path(name), labels({ [`platform.space/${label}`]: missing }))).toEqual(
      forbidden,
    );
    // The namespace belongs to no Space.
    expect(await administrator('DELETE', path(name))).toEqual(done);
  });

  it('everybody may set any marks on what belongs to no Capsule of this Space', async () => {
    for (const copy of [
      named('any', ofCapsule('cabin')),
      named('any', {}, mark),
      named('any', { 'platform.space/capsule': 'household' }),
    ])
      expect(await tenant('POST', '/api/v1/namespaces', copy)).toEqual(done);
    for (const copy of [
      named('any', { 'platform.space/space': 'home' }),
      named('home-household-89abcdef'),
      named('home-household-89abcdef', { 'platform.space/space': 'cabin' }, mark),
    ])
      expect(await tenant('POST', '/api/v1/namespaces', copy)).toEqual(done);
    expect(await tenant('PATCH', path(CAPSULE), { metadata: { annotations: { note: 'x' } } })).toEqual(done);
  });
});

describe('the kinds themselves', () => {
  const kind = (plural: string) =>
    `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.platform.space`;

  it.each(['capsules', 'assistants'])(
    '%s are deleted only by an administrator who has opened them',
    async (plural) => {
      expect(await administrator('DELETE', kind(plural))).toEqual(refused);
      expect(await administrator('PATCH', kind(plural), { metadata: { annotations: open } })).toEqual(done);
      await policyServer.server.client.call({
        method: 'PATCH',
        path: kind(plural),
        contentType: 'application/merge-patch+json',
        body: { metadata: { annotations: open } },
      });
      expect(await administrator('DELETE', kind(plural))).toEqual(done);
      if (plural === 'assistants') return;
      const annotations = { 'platform.space/open': null };
      await policyServer.server.client.call({
        method: 'PATCH',
        path: kind(plural),
        contentType: 'application/merge-patch+json',
        body: { metadata: { annotations } },
      });
      await eventually(async () => (await administrator('DELETE', kind(plural))).status === 403, {
        what: 'it is closed again',
      });
    },
  );

  it('and those of others by anybody who has the right', async () => {
    const other = `${DEFINITIONS}/networksets.crd.projectcalico.org`;
    expect(await administrator('DELETE', other)).toEqual(done);
  });
});

describe.each(['home', 'home-system', 'home-services'])('the namespace %s', (name) => {
  beforeAll(() =>
    policyServer.server.client.call({
      method: 'PATCH',
      path: path(name),
      contentType: 'application/merge-patch+json',
      body: labels({ 'pod-security.kubernetes.io/enforce': 'restricted', 'project.other.org/team': 'a' }),
    }),
  );

  it('keeps the labels about its pods, and no label of another tool', async () => {
    for (const changed of ['privileged', null])
      for (const way of WAYS) {
        const guard = { labels: { 'pod-security.kubernetes.io/enforce': changed } };
        const verdict = await change(administrator, `${path(name)}${way}`, guard);
        expect([changed, way, verdict]).toEqual([changed, way, refused]);
      }
    expect(await administrator('PATCH', path(name), labels({ 'project.other.org/team': 'b' }))).toEqual(done);
    const annotations = { 'platform.space/owner-uid': 'mine' };
    expect(await administrator('PATCH', path(name), { metadata: { annotations } })).toEqual(done);
  });

  it('is not deleted, and keeps the labels that protect it', async () => {
    expect(await administrator('DELETE', path(name))).toEqual(refused);
    expect(await administrator('PATCH', path(name), labels({ 'platform.space/space': null }))).toEqual(
      refused,
    );
  });

  it('accepts labels of other tools, and further protection', async () => {
    const more = labels({ 'project.other.org/id': 'p', 'pod-security.kubernetes.io/enforce': 'restricted' });
    expect(await administrator('PATCH', path(name), more)).toEqual(done);
  });
});

describe('the Secret of a principal', () => {
  const secret = (name: string) => core('home-system', `secrets/${name}`);

  it('is deleted by the operator alone', async () => {
    expect(await administrator('DELETE', secret('capsule-household-database'))).toEqual(refused);
    expect(await administrator('DELETE', core('home-system', 'secrets'))).toEqual(refused);
    expect(await operator('DELETE', secret('capsule-household-database'))).toEqual(done);
  });

  it('is deleted by an administrator who has opened it', async () => {
    expect(await administrator('DELETE', secret('capsule-opened-database'))).toEqual(done);
  });

  it('is the only protected Secret', async () => {
    expect(await administrator('DELETE', secret('bank'))).toEqual(done);
    const owner = { 'platform.space/owner-uid': 'u' };
    const others: [string, object][] = [
      [core('home', 'secrets'), named('copy', ofCapsule('home'), owner)],
      [core('home-system', 'secrets'), named('of-another', ofCapsule('cabin'), owner)],
      [core('home-system', 'secrets'), named('of-none', { 'platform.space/space': 'home' }, owner)],
      [core('home-system', 'secrets'), named('not-owned', ofCapsule('home'))],
    ];
    for (const [at, object] of others) {
      await policyServer.create(at, object);
      const { name } = (object as { metadata: { name: string } }).metadata;
      expect([name, await administrator('DELETE', `${at}/${name}`)]).toEqual([name, done]);
    }
  });
});

it('a namespace in deletion does not protect its network policies', async () => {
  const { client } = policyServer.server;
  const name = 'home-going-0123abcd';
  await policyServer.create('/api/v1/namespaces', named(name, ofCapsule('home', 'going'), open));
  await policyServer.create(policies(name), allowAll);
  await eventually(
    async () => {
      await client.call({ method: 'DELETE', path: path(name) });
      return true;
    },
    { what: 'the namespace is being deleted' },
  );
  // Its deletion completes whether it is open or not.
  await client.call({
    method: 'PATCH',
    path: path(name),
    contentType: 'application/merge-patch+json',
    body: { metadata: { annotations: { 'platform.space/open': null } } },
  });
  expect(await administrator('PATCH', path(name), labels({ 'a.org/b': 'c' }))).toEqual(done);
  // This is what the cluster's own controller does; no policy names it here.
  await eventually(
    async () => (await administrator('DELETE', `${policies(name)}/allow-all`)).status === 200,
    {
      what: 'its walls go',
    },
  );
});
