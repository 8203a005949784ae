/**
 * What the operator's own ServiceAccount may read and write, according to a real API server with the chart's roles
 * and fence.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { eventually } from '../../testing/eventually.ts';
import {
  ATTESTER,
  asOperator,
  type Caller,
  holdLease,
  named,
  type PolicyServer,
  priorityLevelOf,
  startPolicyServer,
} from './testing/policy-server.ts';

const CAPSULE = 'home-household-0123abcd';
const STRIPPED = 'home-stripped-0123abcd';
const OTHER_CAPSULE = 'cabin-household-4567cdef';
/** The namespace of such a Capsule would have a name of more than 63 characters. */
const LONG = 'c'.repeat(60);

let policyServer: PolicyServer;
let operator: Caller;

const ofCapsule = (space: string) => ({
  'platform.space/space': space,
  'platform.space/capsule': 'household',
});
const guarded = {
  'pod-security.kubernetes.io/enforce': 'restricted',
  'pod-security.kubernetes.io/enforce-version': 'latest',
};
const mark = { 'platform.space/owner-uid': 'a Capsule' };
const configMap = named('note');
const secret = named('note');
const changed = { data: { token: 'eA==' } };
const attester = {
  name: 'attest',
  image: ATTESTER,
  command: ['/attest'],
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    runAsNonRoot: true,
    seccompProfile: { type: 'RuntimeDefault' },
  },
};
const probe = (spec: object = {}, labels: object = { 'platform.space/component': 'sandbox-probe' }) => ({
  ...named('sandbox-probe-x', labels),
  spec: {
    runtimeClassName: 'gvisor',
    automountServiceAccountToken: false,
    containers: [attester],
    ...spec,
  },
});
/** The same variable as in operator/sandbox/network.ts. */
const NODE = { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'status.hostIPs' } } };
const withEnv = (...env: object[]) => ({ containers: [{ ...attester, env }] });
const confined = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
};
const assistantContainer = {
  name: 'assistant',
  image: 'registry.test/ledger:1',
  securityContext: confined,
};
/** An address in the range of the test's API server. */
const CANARY = '10.96.1.77';
const TRIED = [`-the canary=${CANARY}:7002`, '+PostgreSQL=10.96.0.7:5432'];
/**
 * A pod of an Assistant, as the cluster's own controllers create it. The policy may be in force when it is created.
 */
const ledger = {
  ...named('ledger', { 'platform.space/assistant': 'ledger' }, { 'platform.space/revision': '1' }),
  spec: {
    runtimeClassName: 'gvisor',
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    initContainers: [
      {
        name: 'attest',
        image: ATTESTER,
        command: ['/attest', ...TRIED],
        securityContext: confined,
      },
    ],
    containers: [assistantContainer],
  },
};
const rbac = 'rbac.authorization.k8s.io';
const binds = (role: string, kind = 'ClusterRole') => ({
  ...named('secrets'),
  roleRef: { apiGroup: rbac, kind, name: role },
  subjects: [{ kind: 'ServiceAccount', name: 'home-operator', namespace: 'home-system' }],
});
const bindSecrets = binds('home-capsule-secrets');
const core = (place: string, plural: string) => `/api/v1/namespaces/${place}/${plural}`;
const bindings = (place: string) => `/apis/${rbac}/v1/namespaces/${place}/rolebindings`;

const roles = `/apis/${rbac}/v1/namespaces/home-system/roles`;
const CONSOLE_ROLE = `${roles}/home-console-principals`;
const CONSOLE_ROLES = `${roles}?fieldSelector=metadata.name%3Dhome-console-principals`;
const reads = (...resourceNames: readonly string[]) => ({
  rules: [{ apiGroups: [''], resources: ['secrets'], resourceNames, verbs: ['get'] }],
});

/** Every Secret that the operator may not read. */
const SERVICES_SECRETS = ['db-admin', 'db-broker-keys', 'db-provisioner', 's3-root'];

beforeAll(async () => {
  policyServer = await startPolicyServer();
  const { create } = policyServer;
  await create('/api/v1/namespaces', named(CAPSULE, { ...ofCapsule('home'), ...guarded }, mark));
  await create('/api/v1/namespaces', named(OTHER_CAPSULE, ofCapsule('cabin')));
  await create('/api/v1/namespaces', named('cabin', { 'platform.space/space': 'cabin' }));
  await create('/api/v1/namespaces', named(STRIPPED, {}, mark));
  for (const name of SERVICES_SECRETS) await create(core('home-services', 'secrets'), named(name));
  for (const name of ['capsule-household-database', 'console-session', 'egress-provisioner'])
    await create(core('home-system', 'secrets'), named(name));
  await create(core('home', 'secrets'), named('bank-key'));
  await create(core('cabin', 'secrets'), named('capsule-household-database'));
  await create(core(CAPSULE, 'secrets'), named('ledger-database'));
  await create(core(OTHER_CAPSULE, 'secrets'), named('ledger-database'));
  const canary = { ...named('canary'), spec: { clusterIP: CANARY, ports: [{ port: 7001 }] } };
  await create(core('home-services', 'services'), canary);
  const made = () => create(core(CAPSULE, 'pods'), ledger).then(() => true);
  await eventually(made, { what: 'the policy of pods to know the canary, if it holds already' });
  await create(bindings(CAPSULE), bindSecrets);
  // As with Helm, the release's namespace has no label of the Space.
  for (const metadata of [
    { annotations: { 'platform.space/open': 'true' } },
    { labels: { 'platform.space/space': null }, annotations: { 'platform.space/open': null } },
  ])
    await policyServer.server.client.call({
      method: 'PATCH',
      path: '/api/v1/namespaces/home',
      contentType: 'application/merge-patch+json',
      body: { metadata },
    });
  operator = await asOperator(policyServer);
  await holdLease(policyServer, 'operator');
  // A policy takes effect a moment after it was created.
  const holds = async () => fenced(await operator('POST', core('default', 'configmaps'), configMap));
  await eventually(holds, { what: 'the fence to hold' });
}, 900_000);

afterAll(() => policyServer?.stop());

const fenced = ({ text }: { readonly text: string }) =>
  text.includes('may write only to the namespaces of its Capsules');

describe('the operator may', () => {
  it.each([
    [
      'make a namespace for a Capsule',
      'POST',
      '/api/v1/namespaces',
      named('home-household-89abcdef', { ...ofCapsule('home'), ...guarded }, mark),
    ],
    ['write into the namespace of its Capsule', 'POST', core(CAPSULE, 'configmaps'), configMap],
    ['bind its role on Secrets there', 'POST', bindings(CAPSULE), { ...bindSecrets, ...named('again') }],
    [
      'keep a principal in its own namespace',
      'POST',
      core('home-system', 'secrets'),
      named('capsule-cellar-objectstore'),
    ],
    ['keep sealed inputs there', 'POST', core('home-system', 'secrets'), named('egress-household.ledger')],
    ['change a principal there', 'PATCH', core('home-system', 'secrets/capsule-household-database'), changed],
    ['probe the sandbox from its own namespace', 'POST', core('home-system', 'pods'), probe()],
    [
      'probe the network from there, told of its node',
      'POST',
      core('home-system', 'pods'),
      {
        ...probe(withEnv(NODE), { 'platform.space/component': 'network-probe' }),
        metadata: named('network-probe-x', { 'platform.space/component': 'network-probe' }).metadata,
      },
    ],
    [
      'hasten a grant to a pod of its Capsule',
      'PATCH',
      core(CAPSULE, 'pods/ledger'),
      { metadata: { annotations: { 'platform.space/granted': '42' } } },
    ],
    ['take a namespace of its Capsule down', 'DELETE', `/api/v1/namespaces/${CAPSULE}`, undefined],
    [
      'put the labels of a namespace back that bears its mark',
      'PATCH',
      `/api/v1/namespaces/${STRIPPED}`,
      { metadata: { labels: { ...ofCapsule('home'), 'platform.space/capsule': 'stripped', ...guarded } } },
    ],
    [
      'name principals in the Role of the console',
      'PATCH',
      CONSOLE_ROLE,
      reads('capsule-household-objectstore'),
    ],
    ['name none there any more', 'PATCH', CONSOLE_ROLE, { rules: [] }],
    ['have no rule there at all', 'PATCH', CONSOLE_ROLE, { rules: null }],
    [
      'make a namespace whose name is cut',
      'POST',
      '/api/v1/namespaces',
      named(
        `${`home-${LONG}`.slice(0, 54)}-89abcdef`,
        { ...ofCapsule('home'), 'platform.space/capsule': LONG, ...guarded },
        mark,
      ),
    ],
    [
      'name there as many as five thousand',
      'PATCH',
      CONSOLE_ROLE,
      reads(...Array.from({ length: 5_000 }, (_, index) => `capsule-${'c'.repeat(30)}-${index}-objectstore`)),
    ],
    ['look at the Role of the console', 'GET', CONSOLE_ROLES, undefined],
    ['watch it', 'GET', `${CONSOLE_ROLES}&watch=true&timeoutSeconds=1`, undefined],
    ['read a principal by name', 'GET', core('home-system', 'secrets/capsule-household-database'), undefined],
    ['read a stored input by name', 'GET', core('home', 'secrets/bank-key'), undefined],
    [
      'read a Secret of a Capsule where it has bound its role',
      'GET',
      core(CAPSULE, 'secrets/ledger-database'),
      undefined,
    ],
  ])('%s', async (_, method, path, body) => {
    expect((await operator(method, path, body)).status).toBeLessThan(300);
  });
});

describe('the operator may not write', () => {
  it.each([
    ['make a namespace of another kind', 'POST', '/api/v1/namespaces', named('elsewhere')],
    ['make one for a Capsule of another Space', 'POST', '/api/v1/namespaces', named('x', ofCapsule('cabin'))],
    ['write where no Capsule is', 'POST', core('default', 'configmaps'), configMap],
    ['write beside the services', 'POST', core('home-services', 'configmaps'), configMap],
    ['help itself to the Secrets of the services', 'POST', bindings('home-services'), bindSecrets],
    ['help itself to the Secrets of the cluster', 'POST', bindings('kube-system'), bindSecrets],
    ['bind its role on Secrets in its own namespace', 'POST', bindings('home-system'), bindSecrets],
    ['bind its role on Secrets beside its Capsules', 'POST', bindings('home'), bindSecrets],
    ['bind its role on Secrets in another Space', 'POST', bindings('cabin'), bindSecrets],
    [
      'bind its role on Secrets in the Capsule of another Space',
      'POST',
      bindings(OTHER_CAPSULE),
      bindSecrets,
    ],
    ['make a Secret there of another name', 'POST', core('home-system', 'secrets'), secret],
    [
      'change the key of the console’s sessions',
      'PATCH',
      core('home-system', 'secrets/console-session'),
      changed,
    ],
    ['change its own token', 'PATCH', core('home-system', 'secrets/egress-provisioner'), changed],
    [
      'delete the key of the console’s sessions',
      'DELETE',
      core('home-system', 'secrets/console-session'),
      undefined,
    ],
    ['make a pod that is no probe', 'POST', core('home-system', 'pods'), probe({}, {})],
    [
      'run anything but the attester as a probe',
      'POST',
      core('home-system', 'pods'),
      probe({ containers: [{ ...attester, image: 'registry.test/other:1' }] }),
    ],
    [
      'run a probe outside the sandbox',
      'POST',
      core('home-system', 'pods'),
      probe({ runtimeClassName: undefined }),
    ],
    [
      'read a Secret by mounting it into a probe',
      'POST',
      core('home-system', 'pods'),
      probe({ volumes: [{ name: 'secret', secret: { secretName: 'x' } }] }),
    ],
    [
      'take variables of a Secret into a probe',
      'POST',
      core('home-system', 'pods'),
      probe({ containers: [{ ...attester, envFrom: [{ secretRef: { name: 'x' } }] }] }),
    ],
    [
      'take a variable of a Secret into a probe',
      'POST',
      core('home-system', 'pods'),
      probe(withEnv(NODE, { name: 'KEY', valueFrom: { secretKeyRef: { name: 'x', key: 'y' } } }), {
        'platform.space/component': 'network-probe',
      }),
    ],
    [
      'tell a probe of another API server',
      'POST',
      core('home-system', 'pods'),
      probe(withEnv({ name: 'KUBERNETES_SERVICE_HOST', value: '192.0.2.1' })),
    ],
    [
      'start something before a probe',
      'POST',
      core('home-system', 'pods'),
      probe({ initContainers: [{ ...attester, name: 'first' }] }),
    ],
    [
      'give a probe an account',
      'POST',
      core('home-system', 'pods'),
      probe({ serviceAccountName: 'home-operator' }),
    ],
    ['place a probe itself', 'POST', core('home-system', 'pods'), probe({ nodeName: 'n1' })],
    ['write into the Capsule of another Space', 'POST', core(OTHER_CAPSULE, 'configmaps'), configMap],
    ['take one of those down', 'DELETE', `/api/v1/namespaces/${OTHER_CAPSULE}`, undefined],
    [
      'make a namespace its own by labels',
      'PATCH',
      '/api/v1/namespaces/default',
      { metadata: { labels: ofCapsule('home') } },
    ],
    [
      'make the services’ namespace a Capsule’s',
      'PATCH',
      '/api/v1/namespaces/home-services',
      { metadata: { labels: ofCapsule('home') } },
    ],
  ])('%s: the fence refuses', async (_, method, path, body) => {
    const verdict = await operator(method, path, body);
    expect([verdict.status, fenced(verdict)]).toEqual([expect.toBeOneOf([403, 422]), true]);
  });
});

describe('beside its Capsules the operator may not', () => {
  const apps = (place: string) => `/apis/apps/v1/namespaces/${place}/deployments`;
  const walls = (place: string) => `/apis/networking.k8s.io/v1/namespaces/${place}/networkpolicies`;
  const labels = { app: 'x' };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: 'x', image: 'registry.test/x:1' }] },
  };
  const KINDS: readonly [string, string, object][] = [
    ['services', core('beside', 'services'), { spec: { ports: [{ port: 80 }] } }],
    ['configmaps', core('beside', 'configmaps'), {}],
    ['resourcequotas', core('beside', 'resourcequotas'), { spec: { hard: { pods: '1' } } }],
    [
      'limitranges',
      core('beside', 'limitranges'),
      { spec: { limits: [{ type: 'Pod', max: { cpu: '1' } }] } },
    ],
    ['secrets', core('beside', 'secrets'), {}],
    ['deployments', apps('beside'), { spec: { selector: { matchLabels: labels }, template } }],
    ['networkpolicies', walls('beside'), { spec: { podSelector: {} } }],
  ];
  const marked = named('there', { 'platform.space/component': 'sandbox-probe' }, mark);

  beforeAll(async () => {
    await policyServer.create('/api/v1/namespaces', named('beside'));
    // The pod is created before the LimitRange, which would otherwise judge it.
    await policyServer.create(core('beside', 'pods'), { ...marked, spec: template.spec });
    for (const [, path, object] of KINDS) await policyServer.create(path, { ...marked, ...object });
    // Somebody may grant it more there than the chart does.
    await policyServer.create(bindings('beside'), bindSecrets);
    const known = async () => fenced(await operator('POST', core('beside', 'secrets'), secret));
    await eventually(known, { what: 'the role that it was given is known' });
  });

  it.each(KINDS)('write %s, nor take them away, whatever mark they bear', async (plural, path, object) => {
    const asked: [string, string, object?][] = [
      ['POST', path, { ...named('new'), ...object }],
      ['PATCH', `${path}/there`, { metadata: { annotations: { note: 'x' } } }],
      ['DELETE', `${path}/there`],
    ];
    for (const [method, at, body] of asked) {
      const verdict = await operator(method, at, body);
      // A request that its roles do not allow does not reach the fence.
      const hasRight = !verdict.text.includes('cannot');
      expect([plural, method, verdict.status >= 400, fenced(verdict) || !hasRight]).toEqual([
        plural,
        method,
        true,
        true,
      ]);
    }
    const made = await operator(...(asked[0] as [string, string, object]));
    expect([plural, fenced(made)]).toEqual([plural, true]);
  });

  it('take a pod away that calls itself a probe', async () => {
    expect(fenced(await operator('DELETE', core('beside', 'pods/there')))).toBe(true);
  });

  it('take anything but a probe away where it runs itself', async () => {
    await policyServer.create(core('home-system', 'configmaps'), marked);
    expect(fenced(await operator('DELETE', core('home-system', 'configmaps/there')))).toBe(true);
    expect(fenced(await operator('DELETE', core('home-system', 'pods/operator')))).toBe(true);
    await policyServer.create(core('home-system', 'pods'), probe());
    expect((await operator('DELETE', core('home-system', 'pods/sandbox-probe-x'))).status).toBe(200);
  });
});

describe('the operator may not make of a Capsule’s namespace', () => {
  const labels = (changes: object) => ({ metadata: { labels: changes } });
  const annotations = (changes: object) => ({ metadata: { annotations: changes } });
  const LABELS = 'must have the labels of its Space and its Capsule';
  const SECURITY = 'must enforce the Pod Security level restricted';
  const OWNER = 'may change neither the owner of a namespace nor its annotation platform.space/open';
  it.each<[string, object, string]>([
    ['none', labels({ 'platform.space/space': null, 'platform.space/capsule': null }), LABELS],
    ['one without a Space', labels({ 'platform.space/space': null }), LABELS],
    ['another Space’s', labels({ 'platform.space/space': 'cabin' }), LABELS],
    ['another Capsule’s', labels({ 'platform.space/capsule': 'other' }), LABELS],
    ['one for pods of any kind', labels({ 'pod-security.kubernetes.io/enforce': 'privileged' }), SECURITY],
    ['one for pods of no kind', labels({ 'pod-security.kubernetes.io/enforce': null }), SECURITY],
    ['one judged by old rules', labels({ 'pod-security.kubernetes.io/enforce-version': 'v1.0' }), SECURITY],
    ['another owner’s', annotations({ 'platform.space/owner-uid': 'another' }), OWNER],
    ['nobody’s', annotations({ 'platform.space/owner-uid': null }), OWNER],
    ['an open one', annotations({ 'platform.space/open': 'true' }), OWNER],
  ])('%s', async (_, change, says) => {
    const { status, text } = await operator('PATCH', `/api/v1/namespaces/${CAPSULE}`, change);
    expect([status, text]).toEqual([422, expect.stringContaining(says)]);
  });

  it.each<[string, string, object, object, string]>([
    ['a name of its own choice', 'home-lab', guarded, mark, LABELS],
    ['the name of another Capsule', 'home-other-0123abcd', guarded, mark, LABELS],
    ['the name of one as long', 'home-househole-89abcdef', guarded, mark, LABELS],
    ['the name of one that begins alike', 'home-house-89abcdef', guarded, mark, LABELS],
    ['a name that ends in no hash', 'home-household-0123abcg', guarded, mark, LABELS],
    ['no Pod Security', 'home-household-89abcdef', {}, mark, SECURITY],
    ['no owner', 'home-household-89abcdef', guarded, {}, OWNER],
    ['an opening', 'home-household-89abcdef', guarded, { ...mark, 'platform.space/open': 'true' }, OWNER],
  ])('a new one with %s', async (_, name, security, marks, says) => {
    const made = named(name, { ...ofCapsule('home'), ...security }, marks);
    const { status, text } = await operator('POST', '/api/v1/namespaces', made);
    expect([status, text]).toEqual([422, expect.stringContaining(says)]);
  });

  it('another’s by taking it over from nobody', async () => {
    const changes = { ...ofCapsule('home'), ...guarded };
    const path = `/api/v1/namespaces/${STRIPPED}`;
    const { status, text } = await operator('PATCH', path, { metadata: { labels: changes } });
    expect([status, text]).toEqual([422, expect.stringContaining(LABELS)]);
  });
});

describe('the operator may not let the console', () => {
  const all = { apiGroups: [''], resources: ['secrets'], verbs: ['get'] };
  const named = { ...all, resourceNames: ['capsule-household-objectstore'] };
  const NOTHING_ELSE = 'may let the console read only principals for the object store, each by its name';
  it.each<[string, readonly object[]]>([
    ['read every Secret', [all]],
    ['read every Secret, by an empty list', [{ ...all, resourceNames: [] }]],
    ['read every Secret beside a principal', [named, all]],
    ['read its own token', [{ ...all, resourceNames: ['db-provisioner'] }]],
    ['read what is no principal', [{ ...all, resourceNames: ['household-objectstore'] }]],
    ['read a Service', [{ ...named, resources: ['services'] }]],
    ['read a database principal', [{ ...all, resourceNames: ['capsule-household-database'] }]],
    ['change a principal', [{ ...named, verbs: ['get', 'patch'] }]],
    ['make pods', [{ apiGroups: [''], resources: ['pods'], verbs: ['create'] }]],
  ])('%s: the fence refuses', async (_, rules) => {
    const { status, text } = await operator('PATCH', CONSOLE_ROLE, { rules });
    expect([status, text]).toEqual([422, expect.stringContaining(NOTHING_ELSE)]);
  });

  it('do what it may not do itself: the API server refuses', async () => {
    const rules = [{ apiGroups: [''], resources: ['secrets'], verbs: ['list'] }];
    const { status, text } = await operator('PATCH', CONSOLE_ROLE, { rules });
    expect([status, text]).toEqual([
      403,
      expect.stringContaining('attempting to grant RBAC permissions not currently held'),
    ]);
  });
});

describe('the operator may not change of a pod', () => {
  it.each([
    ['its image', { spec: { containers: [{ ...assistantContainer, image: 'registry.test/other:1' }] } }],
    ['its deadline', { spec: { activeDeadlineSeconds: 1 } }],
    ['its labels', { metadata: { labels: { 'platform.space/assistant': 'other' } } }],
    ['another annotation', { metadata: { annotations: { 'platform.space/revision': '2' } } }],
    ['an annotation away', { metadata: { annotations: { 'platform.space/revision': null } } }],
    ['a new annotation', { metadata: { annotations: { 'platform.space/note': '' } } }],
  ])('%s', async (_, change) => {
    expect(await operator('PATCH', core(CAPSULE, 'pods/ledger'), change)).toEqual({
      status: 422,
      text: expect.stringContaining(
        'may change nothing of a pod except the annotation platform.space/granted',
      ),
    });
  });
});

it('renewals of the Lease do not wait behind what else the operator asks for', async () => {
  const { metadata } = await policyServer.server.client.call<{ metadata: { uid: string } }>({
    method: 'GET',
    path: '/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/leader-election',
  });
  const lease = '/apis/coordination.k8s.io/v1/namespaces/home-system/leases/home-operator';
  const levelOf = (path: string) => priorityLevelOf(policyServer, path);
  await eventually(async () => (await levelOf(lease)) === metadata.uid, {
    what: 'the API server knows the flow of renewals',
  });
  expect(await levelOf(core(CAPSULE, 'configmaps'))).toMatch(/^[0-9a-f-]{36}$/);
  expect(await levelOf(core(CAPSULE, 'configmaps'))).not.toBe(metadata.uid);
});

it('an operator that does not hold the Lease writes nothing at all', async () => {
  const standby = await asOperator(policyServer, 'standby');
  const note = () => standby('POST', core(CAPSULE, 'configmaps'), configMap);
  expect(await note()).toEqual({ status: 403, text: expect.stringContaining('does not hold the Lease') });
  expect((await standby('GET', core(CAPSULE, 'configmaps'))).status).toBe(200);
  await holdLease(policyServer, 'standby');
  await eventually(async () => (await note()).status === 201, { what: 'the Lease gives it the right' });
  await eventually(
    async () => (await operator('POST', core(CAPSULE, 'configmaps'), configMap)).status === 403,
    {
      what: 'the Lease takes it from the other',
    },
  );
  await holdLease(policyServer, 'operator');
  await eventually(
    async () => (await operator('POST', core(CAPSULE, 'configmaps'), configMap)).status === 201,
    {
      what: 'and gives it back',
    },
  );
});

describe('an operator that does not hold the Lease does not', () => {
  const template = {
    metadata: { labels: { app: 'x' } },
    spec: { containers: [{ name: 'x', image: 'registry.test/x:1' }] },
  };
  const ours = `/apis/platform.space/v1/namespaces/home`;
  const noted = { metadata: { annotations: { note: 'x' } } };
  let idle: Caller;
  beforeAll(async () => {
    idle = await asOperator(policyServer, 'idle');
    const made = { apiVersion: 'platform.space/v1', metadata: { name: 'kept' } };
    const spec = { capsule: 'kept', image: 'registry.test/x:1', manifest: manifest('ledger') };
    await policyServer.create(`${ours}/capsules`, { ...made, kind: 'Capsule', spec: {} });
    await policyServer.create(`${ours}/assistants`, { ...made, kind: 'Assistant', spec });
  });

  it.each<[string, string, string, object?]>([
    [
      'make a namespace',
      'POST',
      '/api/v1/namespaces',
      named('home-household-89abcdef', { ...ofCapsule('home'), ...guarded }, mark),
    ],
    ['make a Service', 'POST', core(CAPSULE, 'services'), { ...named('s'), spec: { ports: [{ port: 80 }] } }],
    ['make a ConfigMap', 'POST', core(CAPSULE, 'configmaps'), configMap],
    [
      'make a quota',
      'POST',
      core(CAPSULE, 'resourcequotas'),
      { ...named('q'), spec: { hard: { pods: '1' } } },
    ],
    [
      'make a LimitRange',
      'POST',
      core(CAPSULE, 'limitranges'),
      { ...named('l'), spec: { limits: [{ type: 'Pod', max: { cpu: '1' } }] } },
    ],
    ['make a Secret', 'POST', core(CAPSULE, 'secrets'), secret],
    ['take a pod away', 'DELETE', core(CAPSULE, 'pods/ledger')],
    [
      'make a Deployment',
      'POST',
      `/apis/apps/v1/namespaces/${CAPSULE}/deployments`,
      { ...named('d'), spec: { selector: { matchLabels: { app: 'x' } }, template } },
    ],
    [
      'make a wall',
      'POST',
      `/apis/networking.k8s.io/v1/namespaces/${CAPSULE}/networkpolicies`,
      { ...named('w'), spec: { podSelector: {} } },
    ],
    ['bind its role', 'POST', bindings(CAPSULE), { ...bindSecrets, ...named('again') }],
    ['keep a principal', 'POST', core('home-system', 'secrets'), named('capsule-late-database')],
    ['probe', 'POST', core('home-system', 'pods'), probe()],
    ['name a principal to the console', 'PATCH', CONSOLE_ROLE, { rules: [] }],
    ['change a Capsule', 'PATCH', `${ours}/capsules/kept`, noted],
    ['take an Assistant away', 'DELETE', `${ours}/assistants/kept`],
    ['tell of a Capsule', 'PATCH', `${ours}/capsules/kept/status`, { status: {} }],
    ['tell of an Assistant', 'PATCH', `${ours}/assistants/kept/status`, { status: {} }],
  ])('%s', async (_, method, path, body) => {
    expect(await idle(method, path, body)).toEqual({
      status: 403,
      text: expect.stringContaining('does not hold the Lease'),
    });
  });
});

it('callers other than the operator are not restricted by its fence', async () => {
  const administrator = await policyServer.administrator();
  for (const place of ['default', CAPSULE, 'home-system']) {
    const made = async () =>
      (await administrator('POST', core(place, 'configmaps'), configMap)).status === 201;
    await eventually(made, { what: `an administrator writes in ${place}` });
  }
});

describe('the operator has no role to', () => {
  const all = { apiGroups: ['*'], resources: ['*'], verbs: ['*'] };
  it.each([
    ...SERVICES_SECRETS.map((name) => [
      `read the services' Secret ${name}`,
      'GET',
      core('home-services', `secrets/${name}`),
    ]),
    ['list the Secrets of the services', 'GET', core('home-services', 'secrets')],
    ...['home', 'home-system'].flatMap((place) => [
      [`list the Secrets of ${place}`, 'GET', core(place, 'secrets')],
      [`watch those of ${place}`, 'GET', `${core(place, 'secrets')}?watch=true&timeoutSeconds=1`],
    ]),
    ['make a Secret beside its Capsules', 'POST', core('home', 'secrets'), secret],
    ['change a stored input', 'PATCH', core('home', 'secrets/bank-key'), { data: {} }],
    ['delete a stored input', 'DELETE', core('home', 'secrets/bank-key')],
    ['make a pod beside its Capsules', 'POST', core('home', 'pods'), probe()],
    ['list the Secrets of a Capsule of its own', 'GET', core(CAPSULE, 'secrets')],
    ['list the Secrets of the cluster', 'GET', '/api/v1/secrets'],
    ['read a principal of another Space', 'GET', core('cabin', 'secrets/capsule-household-database')],
    ['read a Secret of its Capsule', 'GET', core(OTHER_CAPSULE, 'secrets/ledger-database')],
    ['read a Secret of the cluster', 'GET', core('kube-system', 'secrets/x')],
    [
      'bind the administrator’s role in a Capsule',
      'POST',
      bindings(CAPSULE),
      { ...binds('cluster-admin'), ...named('again') },
    ],
    [
      'bind a role that reads everything there',
      'POST',
      bindings(CAPSULE),
      { ...binds('system:kube-scheduler'), ...named('again') },
    ],
    ['bind itself in the whole cluster', 'POST', `/apis/${rbac}/v1/clusterrolebindings`, bindSecrets],
    ['make a role', 'POST', `/apis/${rbac}/v1/namespaces/${CAPSULE}/roles`, { ...named('r'), rules: [all] }],
    ['make one in its own namespace', 'POST', roles, { ...named('r'), rules: [] }],
    ['change another one there', 'PATCH', `${roles}/home-operator`, { rules: [] }],
    ['take the console’s away', 'DELETE', CONSOLE_ROLE],
    ['look at the roles there', 'GET', roles],
    ['widen its own role', 'PATCH', `/apis/${rbac}/v1/clusterroles/home-capsule-secrets`, { rules: [all] }],
    [
      'take its fence down',
      'DELETE',
      '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/home-operator-fence',
    ],
    [
      'be somebody else',
      'POST',
      core('home-services', 'serviceaccounts/default/token'),
      { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
    ],
    ['start a pod that mounts what it may not read', 'POST', core('home-services', 'pods'), named('p')],
    ['make a pod in a Capsule', 'POST', core(CAPSULE, 'pods'), probe()],
    ['make a pod beside the services', 'POST', core('home-services', 'pods'), probe()],
    ['look into a pod', 'POST', core(CAPSULE, 'pods/ledger/exec?command=env')],
  ] as [string, string, string, object?][])('%s', async (_, method, path, body) => {
    const verdict = await operator(method, path, body);
    expect([verdict.status, fenced(verdict)]).toEqual([403, false]);
  });
});

it('without a Lease nobody is kept from writing by it', async () => {
  const path = '/apis/coordination.k8s.io/v1/namespaces/home-system/leases/home-operator';
  const early = await asOperator(policyServer, 'early');
  await policyServer.server.client.call({ method: 'DELETE', path });
  const asked: readonly [string, object][] = [
    [core(CAPSULE, 'configmaps'), configMap],
    [core('home-system', 'secrets'), named('capsule-early-database')],
  ];
  for (const [at, body] of asked)
    await eventually(async () => (await early('POST', at, body)).status === 201, { what: `it writes ${at}` });
  const marked = { metadata: { annotations: { note: 'x' } } };
  const capsules = '/apis/platform.space/v1/namespaces/home/capsules';
  await policyServer.create(capsules, {
    apiVersion: 'platform.space/v1',
    kind: 'Capsule',
    metadata: { name: 'early' },
    spec: {},
  });
  expect((await early('PATCH', `${capsules}/early`, marked)).status).toBe(200);
});
