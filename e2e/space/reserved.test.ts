/**
 * Objects that nobody may create in the namespaces of the Space's own programs, according to a real API server with
 * the chart's policies.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { DEFINITIONS, definition, FOREIGN_WALLS, ROUTES } from './testing/foreign.ts';
import {
  asOperator,
  type Caller,
  holdLease,
  named,
  type PolicyServer,
  startPolicyServer,
} from './testing/policy-server.ts';

const SYSTEM = 'home-system';
const SERVICES = 'home-services';
const core = (place: string, rest: string) => `/api/v1/namespaces/${place}/${rest}`;
const apps = (place: string, rest: string) => `/apis/apps/v1/namespaces/${place}/${rest}`;
const SECRETS = core(SYSTEM, 'secrets');
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM}/leases`;
const policies = (place: string) => `/apis/networking.k8s.io/v1/namespaces/${place}/networkpolicies`;
const tokenOf = (place: string, account: string) => core(place, `serviceaccounts/${account}/token`);

let policyServer: PolicyServer;
/** Has all rights in all three namespaces except on roles: more than Kubernetes' own role `edit`. */
let editor: Caller;
/** An administrator of the Space, who may open objects of the operator. */
let opener: Caller;
let administrator: Caller;
let operator: Caller;

const refused = (says: string) => ({ status: 403, text: expect.stringContaining(says) });
const done = { status: expect.toBeOneOf([200, 201]), text: expect.any(String) };
const ALONE = 'only programs of the Space home itself may run in';

const pod = (spec: object = {}, labels: object = { app: 'x' }) => ({
  metadata: { name: 'x', labels },
  spec: { containers: [{ name: 'x', image: 'registry.test/x:1' }], ...spec },
});
const template = (spec?: object) => {
  const { metadata, spec: inner } = pod(spec);
  return { metadata: { labels: metadata.labels }, spec: inner };
};
const selecting = (what: object) => ({
  ...named('x'),
  spec: { selector: { matchLabels: { app: 'x' } }, ...what },
});
const job = { template: template({ restartPolicy: 'Never' }) };
/** Each kind that creates pods. */
const KINDS: readonly [string, (place: string) => string, object][] = [
  ['a pod', (place) => core(place, 'pods'), pod()],
  ['a Deployment', (place) => apps(place, 'deployments'), selecting({ template: template() })],
  ['a ReplicaSet', (place) => apps(place, 'replicasets'), selecting({ template: template() })],
  ['a DaemonSet', (place) => apps(place, 'daemonsets'), selecting({ template: template() })],
  [
    'a StatefulSet',
    (place) => apps(place, 'statefulsets'),
    selecting({ serviceName: 'x', template: template() }),
  ],
  [
    'a ReplicationController',
    (place) => core(place, 'replicationcontrollers'),
    { ...named('x'), spec: { selector: { app: 'x' }, template: template() } },
  ],
  ['a Job', (place) => `/apis/batch/v1/namespaces/${place}/jobs`, { ...named('x'), spec: job }],
  [
    'a CronJob',
    (place) => `/apis/batch/v1/namespaces/${place}/cronjobs`,
    { ...named('x'), spec: { schedule: '@daily', jobTemplate: { spec: job } } },
  ],
];
/** A tool issues the Space's certificates. */
const ISSUER = 'system:serviceaccount:cert-manager:cert-manager';
const CERTIFICATES = [
  `tls.writers={${ISSUER}}`,
  'tls.existingCA=our.ca',
  ...['dbBroker', 'egress', 'postgres', 'objectStoreBroker', 's3'].map(
    (key) => `tls.existingSecrets.${key}=services-cert`,
  ),
  'tls.existingSecrets.console=console-cert',
  'console.ingress.host=space.example.org',
  'console.ingress.tlsSecret=ingress.cert',
];
const tokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };

beforeAll(async () => {
  policyServer = await startPolicyServer(['home'], [], CERTIFICATES);
  administrator = await policyServer.administrator();
  operator = await asOperator(policyServer);
  await holdLease(policyServer, 'operator');
  const foreign = [...FOREIGN_WALLS, ...ROUTES];
  for (const [group, plural, kind] of foreign)
    await policyServer.create(DEFINITIONS, definition(group, plural, kind));
  const groups = ['', 'apps', 'batch', 'coordination.k8s.io', 'networking.k8s.io'].concat(
    foreign.map(([group]) => group),
  );
  const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete'];
  const everything = [{ apiGroups: groups, resources: ['*'], verbs }];
  editor = await policyServer.caller('editor', everything, ['home', SYSTEM, SERVICES]);
  opener = await policyServer.caller('opener', [
    { apiGroups: ['platform.space'], resources: ['capsules'], verbs: ['open'] },
  ]);
  await policyServer.create(`/apis/rbac.authorization.k8s.io/v1/namespaces/${SYSTEM}/rolebindings`, {
    ...named('opener'),
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'editor' },
    subjects: [{ kind: 'ServiceAccount', name: 'opener', namespace: 'home' }],
  });
  for (const place of [SYSTEM, SERVICES]) {
    const program = { ...selecting({ template: template() }), ...named('program') };
    await policyServer.create(apps(place, 'deployments'), program);
    await policyServer.create(core(place, 'pods'), pod());
    await policyServer.create(core(place, 'serviceaccounts'), named('program'));
    await policyServer.create(policies(place), { ...named('default-deny'), spec: { podSelector: {} } });
  }
  await policyServer.create(core(SERVICES, 'services'), {
    ...named('inside'),
    spec: { ports: [{ port: 80 }] },
  });
  // Policies are in force, and rights are known, a moment after they were created.
  const holds = async () => {
    for (const place of [SYSTEM, SERVICES]) {
      expect(await editor('POST', core(place, 'pods'), pod())).toEqual(refused(ALONE));
      expect(await editor('DELETE', `${policies(place)}/default-deny`)).toEqual(
        refused('may change the network policies'),
      );
    }
    expect(await editor('POST', SECRETS, named('x'))).toEqual(
      refused('only the operator writes the Secrets and ConfigMaps'),
    );
    expect(await editor('POST', LEASE, named('home-operator2'))).toEqual(done);
    expect(await administrator('POST', SECRETS, named('x'))).toEqual(done);
    expect(await opener('POST', SECRETS, named('x'))).toEqual(done);
    expect(await operator('POST', SECRETS, named('capsule-x-database'))).toEqual(done);
    return true;
  };
  await eventually(holds, { what: 'the policies to hold' });
}, 900_000);

afterAll(() => policyServer?.stop());

describe.each([SYSTEM, SERVICES])('in %s', (place) => {
  it.each(KINDS)('only the installer of the release creates %s', async (_, at, body) => {
    const made = { ...body, ...named('y') };
    expect(await editor('POST', at(place), made)).toEqual(refused(ALONE));
    expect(await administrator('POST', at(place), made)).toEqual(done);
    expect(await editor('POST', at('home'), made)).toEqual(done);
  });

  it('nobody changes the running programs there', async () => {
    const changed = (what: object) => editor('PATCH', apps(place, 'deployments/program'), what);
    const evil = { containers: [{ name: 'x', image: 'registry.test/evil:1' }] };
    expect(await changed({ spec: { template: { spec: evil } } })).toEqual(refused(ALONE));
    const labels = { app: 'x', 'platform.space/component': 'operator' };
    expect(await changed({ spec: { template: { metadata: { labels } } } })).toEqual(refused(ALONE));
    for (const way of ['pods/x', 'pods/x/status'])
      expect(await editor('PATCH', core(place, way), { metadata: { labels } })).toEqual(refused(ALONE));
    // A node does this. Here it has no group that shows that it is one.
    const status = { conditions: [{ type: 'Ready', status: 'True' }] };
    expect(await editor('PATCH', core(place, 'pods/x/status'), { status })).toEqual(done);
    const ephemeral = { spec: { ephemeralContainers: [{ name: 'e', image: 'registry.test/x:1' }] } };
    expect(await editor('PATCH', core(place, 'pods/x/ephemeralcontainers'), ephemeral)).toEqual(
      refused(ALONE),
    );
    expect(await changed({ metadata: { annotations: { note: '1' } } })).toEqual(done);
    expect(await changed({ spec: { replicas: 0 } })).toEqual(done);
  });

  it('nobody has a token of an account that is there', async () => {
    expect(await editor('POST', tokenOf(place, 'program'), tokenRequest)).toEqual(refused(ALONE));
  });

  it('nobody changes, moves or deletes a network policy', async () => {
    const open = { ...named('hole'), spec: { podSelector: {}, ingress: [{}] } };
    expect(await editor('POST', policies(place), open)).toEqual(
      refused('may change the network policies of this namespace'),
    );
    const wall = `${policies(place)}/default-deny`;
    expect(await editor('PATCH', wall, { spec: { ingress: [{}] } })).toEqual(
      refused('may change the network policies'),
    );
    expect(await editor('DELETE', wall)).toEqual(refused('may change the network policies'));
    expect(await administrator('PATCH', wall, { spec: { ingress: [{}] } })).toEqual(done);
    expect(await editor('POST', policies('home'), open)).toEqual(done);
  });

  it.each(FOREIGN_WALLS)('nobody adds a network policy of %s, %s', async (group, plural, kind) => {
    const wall = (namespace: string) =>
      editor('POST', `/apis/${group}/v1/namespaces/${namespace}/${plural}`, {
        apiVersion: `${group}/v1`,
        kind,
        ...named('hole'),
      });
    await eventually(async () => (await wall('home')).status === 201, { what: 'the kind is served' });
    expect(await wall(place)).toEqual(refused('may change the network policies of this namespace'));
  });

  it('the cluster’s controllers create the pods of a Deployment', async () => {
    const controller = await policyServer.controller(`replicaset-controller`).catch(() => undefined);
    const ask = controller ?? (await policyServer.controller('job-controller'));
    const made = async () =>
      (await ask('POST', core(place, 'pods'), { ...pod(), ...named('z') })).status === 201;
    await eventually(made, { what: 'a controller makes a pod' });
  });
});

describe('the services can be reached only inside the cluster', () => {
  const services = core(SERVICES, 'services');
  const service = (spec: object) => ({ ...named('y'), spec: { ports: [{ port: 80 }], ...spec } });
  const says = 'may be reachable only from inside the cluster';

  it.each([
    ['at a port of every node', { type: 'NodePort' }],
    ['by a load balancer', { type: 'LoadBalancer' }],
    ['by a name of another place', { type: 'ExternalName', externalName: 'elsewhere.org' }],
    ['at an address of somebody’s choice', { externalIPs: ['192.0.2.1'] }],
  ])('by nobody’s Service, not even an administrator’s, %s', async (_, spec) => {
    for (const ask of [editor, administrator])
      expect(await ask('POST', services, service(spec))).toEqual(refused(says));
    expect(await administrator('PATCH', `${services}/inside`, { spec })).toEqual(refused(says));
    expect(await administrator('POST', services, service({}))).toEqual(done);
  });

  it.each(ROUTES)('by no route of %s, %s', async (group, plural, kind) => {
    const route = (namespace: string) =>
      editor('POST', `/apis/${group}/v1/namespaces/${namespace}/${plural}`, {
        apiVersion: `${group}/v1`,
        kind,
        ...named('way'),
      });
    await eventually(async () => (await route('home')).status === 201, { what: 'the kind is served' });
    expect(await route(SERVICES)).toEqual(refused(says));
  });

  it('by no Ingress', async () => {
    const backend = { service: { name: 'inside', port: { number: 80 } } };
    const ingress = { ...named('y'), spec: { defaultBackend: backend } };
    const at = (place: string) => `/apis/networking.k8s.io/v1/namespaces/${place}/ingresses`;
    for (const ask of [editor, administrator])
      expect(await ask('POST', at(SERVICES), ingress)).toEqual(refused(says));
    expect(await editor('POST', at('home'), ingress)).toEqual(done);
  });
});

it('nobody runs a command in the operator’s container, and administrators may in the brokers’', async () => {
  const exec = (place: string, what: string) =>
    editor('POST', `${core(place, `pods/x/${what}`)}?command=true&stdout=true`);
  for (const what of ['exec', 'attach']) {
    expect(await exec(SYSTEM, what)).toEqual(refused(ALONE));
    expect((await exec(SERVICES, what)).text).not.toContain(ALONE);
  }
});

it('nobody else can request a token for an account of the operator’s namespace, or create a lasting one', async () => {
  for (const account of ['home-operator', 'home-keys'])
    expect(await editor('POST', tokenOf(SYSTEM, account), tokenRequest)).toEqual(refused(ALONE));
  expect(await editor('POST', tokenOf('home', 'editor'), tokenRequest)).toEqual(done);
  // Under a principal's name, which the operator may write: no other rule refuses it there.
  const lasting = (name: string) => ({
    ...named('capsule-token-database', {}, { 'kubernetes.io/service-account.name': name }),
    type: 'kubernetes.io/service-account-token',
  });
  for (const ask of [editor, administrator, operator, opener])
    for (const account of ['home-operator', 'home-keys'])
      expect(await ask('POST', SECRETS, lasting(account))).toEqual(
        refused('nobody may create a lasting token of a service account of the Space home'),
      );
});

it('nobody but the installer creates a lasting token in the services’ namespace, or turns one over to an account', async () => {
  const secrets = core(SERVICES, 'secrets');
  const account = 'kubernetes.io/service-account.name';
  const lasting = (name: string) => ({
    ...named('lasting', {}, { [account]: name }),
    type: 'kubernetes.io/service-account-token',
  });
  expect(await editor('POST', secrets, lasting('program'))).toEqual(refused(ALONE));
  expect(await administrator('POST', secrets, lasting('program'))).toEqual(done);
  expect(await editor('POST', secrets, named('lasting'))).toEqual(done);
  await policyServer.create(core(SERVICES, 'serviceaccounts'), named('another'));
  await policyServer.create(secrets, lasting('another'));
  const turned = { metadata: { annotations: { [account]: 'program' } } };
  expect(await editor('PATCH', `${secrets}/lasting`, turned)).toEqual(refused(ALONE));
});

describe('in the operator’s namespace', () => {
  const says = 'you need the verb open on all capsules.platform.space in the namespace home';
  const ofCapsule = { 'platform.space/space': 'home', 'platform.space/capsule': 'x' };

  it.each([
    ['a principal', 'secrets', named('capsule-x-database')],
    [
      'a principal that was retained',
      'secrets',
      named('capsule-x-database', { 'platform.space/retained': 'true' }),
    ],
    ['sealed inputs', 'secrets', named('egress-x.ledger', ofCapsule, { 'platform.space/owner-uid': 'u' })],
    ['a token of the brokers', 'secrets', named('db-provisioner')],
    ['an authority of the brokers', 'configmaps', named('space-ca')],
  ])('nobody else creates %s', async (_, plural, object) => {
    const path = core(SYSTEM, plural);
    expect(await editor('POST', path, object)).toEqual(refused(says));
    for (const ask of [administrator, opener]) expect(await ask('POST', path, object)).toEqual(done);
  });

  it('the operator creates principals and sealed inputs', async () => {
    expect(await operator('POST', SECRETS, named('capsule-x-database', ofCapsule))).toEqual(done);
  });

  it('nobody else changes or opens one', async () => {
    await policyServer.create(
      SECRETS,
      named('capsule-kept-database', ofCapsule, { 'platform.space/owner-uid': 'u' }),
    );
    const path = `${SECRETS}/capsule-kept-database`;
    const changes = [
      { data: { principal: 'eA==' } },
      { metadata: { annotations: { 'platform.space/open': 'true' } } },
      { metadata: { labels: null, annotations: null } },
    ];
    for (const change of changes) {
      expect(await editor('PATCH', path, change)).toEqual(refused(says));
      expect(await opener('PATCH', path, change)).toEqual(done);
    }
  });

  it('only who issues certificates writes those, and the authority, and writes nothing else', async () => {
    const issuer = policyServer.user(ISSUER);
    await policyServer.create(`/apis/rbac.authorization.k8s.io/v1/namespaces/${SYSTEM}/rolebindings`, {
      ...named('issuer'),
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'editor' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: ISSUER }],
    });
    const at = (plural: string) => core(SYSTEM, plural);
    const generated = (generateName: string) => ({ metadata: { generateName } });
    await policyServer.create(at('secrets'), named('console-cert'));
    await policyServer.create(at('secrets'), named('another-cert'));
    await eventually(async () => (await issuer('GET', SECRETS)).status === 200, { what: 'its rights' });
    for (const [plural, object] of [
      ['secrets', named('ingress.cert')],
      ['secrets', generated('console-cert-')],
      ['configmaps', named('our.ca')],
    ] as const) {
      expect(await issuer('POST', at(plural), object)).toEqual(done);
      expect(await editor('POST', at(plural), object)).toEqual(refused(says));
    }
    const renewed = { data: { 'tls.crt': 'eA==' } };
    expect(await issuer('PATCH', `${SECRETS}/console-cert`, renewed)).toEqual(done);
    expect(await editor('PATCH', `${SECRETS}/console-cert`, renewed)).toEqual(refused(says));
    expect(await issuer('PATCH', `${SECRETS}/another-cert`, renewed)).toEqual(refused(says));
    for (const [plural, object] of [
      ['secrets', named('capsule-x-database')],
      ['secrets', named('db-provisioner')],
      ['secrets', named('ingress-cert')],
      ['secrets', named('a-console-cert')],
      ['secrets', named('console-cert-x')],
      ['secrets', named('console-cert-admin')],
      ['secrets', named('services-cert')],
      ['secrets', named('our.ca')],
      ['secrets', generated('capsule-')],
      ['configmaps', named('console-cert')],
      ['configmaps', named('our.ca-12345')],
      ['configmaps', named('home-policies')],
    ] as const)
      expect([object, await issuer('POST', at(plural), object)]).toEqual([object, refused(says)]);
    const lasting = named('ingress.cert', {}, { 'kubernetes.io/service-account.name': 'home-operator' });
    const token = { ...lasting, type: 'kubernetes.io/service-account-token' };
    expect(await issuer('POST', SECRETS, token)).toEqual(refused('nobody may create a lasting token'));
  });

  it('the cluster’s own controllers write their objects of every namespace', async () => {
    const publisher = await policyServer.controller('root-ca-cert-publisher');
    const root = { ...named('kube-root-ca.crt.2'), data: {} };
    const made = async () => (await publisher('POST', core(SYSTEM, 'configmaps'), root)).status === 201;
    await eventually(made, { what: 'a controller with an account of its own writes' });
    // In a cluster whose controllers have no accounts, they are this user.
    const manager = policyServer.user('system:kube-controller-manager');
    expect(await manager('POST', SECRETS, named('x'))).toEqual(done);
    expect(await manager('POST', tokenOf(SYSTEM, 'program'), tokenRequest)).toEqual(done);
  });

  it('the installer of the release writes there without opening anything', async () => {
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    const releaser = await policyServer.caller('releaser');
    const resourceNames = ['home-operator'];
    const rules = [
      {
        apiGroups: ['rbac.authorization.k8s.io'],
        resources: ['clusterroles'],
        resourceNames,
        verbs: ['patch'],
      },
    ];
    await policyServer.create(`${rbac}/clusterroles`, { ...named('releaser'), rules });
    const subjects = [{ kind: 'ServiceAccount', name: 'releaser', namespace: 'home' }];
    const roleRef = (kind: string, name: string) => ({
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name },
    });
    await policyServer.create(`${rbac}/clusterrolebindings`, {
      ...{ ...named('releaser'), subjects },
      ...roleRef('ClusterRole', 'releaser'),
    });
    await policyServer.create(`${rbac}/namespaces/${SYSTEM}/rolebindings`, {
      ...{ ...named('releaser'), subjects },
      ...roleRef('Role', 'editor'),
    });
    const made = async () => (await releaser('POST', SECRETS, named('x'))).status === 201;
    await eventually(made, { what: 'its rights are known' });
  });

  it('the Lease is written by the operator and by the installer of the release', async () => {
    const path = `${LEASE}/home-operator`;
    const { text } = await operator('GET', path);
    expect(await operator('PUT', path, JSON.parse(text) as object)).toEqual(done);
    const change = { spec: { holderIdentity: 'somebody' } };
    expect(await editor('PATCH', path, change)).toEqual(
      refused('decides which operator of the Space home may write'),
    );
    expect(await opener('PATCH', path, change)).toEqual(refused('decides which operator'));
    expect(await administrator('PATCH', path, change)).toEqual(done);
    expect(await editor('POST', LEASE, named('mine'))).toEqual(done);
    // A Lease of this name in another namespace is not reserved.
    const elsewhere = LEASE.replace(SYSTEM, 'home');
    expect(await editor('POST', elsewhere, named('home-operator'))).toEqual(done);
  });
});

describe('of what Helm knows of the releases in the namespace of the Space', () => {
  const INSTALLS = "only the installer of the Space home may write Helm's records of it";
  const LISTS = "may write Helm's records of a release, as Helm itself does";
  const own = { owner: 'helm', name: 'home', status: 'deployed', version: '1' };
  const other = { ...own, name: 'books' };
  const RECORD = 'sh.helm.release.v1.home.v1';
  const input = { ...named('bank'), type: 'platform.space/stored-input', data: { value: 'eA==' } };
  const kinds = ['secrets', 'configmaps'].map((plural) => [plural, core('home', plural)] as const);
  const [[, secrets] = ['', '']] = kinds;
  const token = (name: string, account: string) => ({
    ...named(name, {}, { 'kubernetes.io/service-account.name': account }),
    type: 'kubernetes.io/service-account-token',
  });
  /** A person who enters stored inputs. */
  let insider: Caller;

  beforeAll(async () => {
    insider = await policyServer.caller('insider');
    for (const place of ['home', 'default'])
      await policyServer.create(`/apis/rbac.authorization.k8s.io/v1/namespaces/${place}/rolebindings`, {
        ...named('insider'),
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'home-space-inputs' },
        subjects: [{ kind: 'ServiceAccount', name: 'insider', namespace: 'home' }],
      });
    for (const [, path] of kinds) {
      await policyServer.create(path, named(RECORD, own));
      await policyServer.create(path, named('sh.helm.release.v1.books.v1', other));
      await policyServer.create(path, named('told-by-labels', own));
      await policyServer.create(path, named('plain'));
    }
    const known = async () => {
      const record = await editor('POST', secrets, named('x', own));
      return record.status === 403 && (await insider('POST', secrets, input)).status === 201;
    };
    await eventually(known, { what: 'policy and role to hold' });
  });

  it.each(kinds)('nobody creates or changes records of the Space, among %s', async (_, path) => {
    const made = [
      named('sh.helm.release.v1.home.v2', own),
      named('sh.helm.release.v1.home.v2'),
      named('of-any-name', own),
      { metadata: { generateName: 'sh.helm.release.v1.home.v', labels: own } },
    ];
    for (const record of made) expect(await editor('POST', path, record)).toEqual(refused(INSTALLS));
    const changes = [
      { data: { release: 'eA==' } },
      { metadata: { labels: { owner: null, name: null } } },
      { metadata: { labels: { status: 'superseded' } } },
      { metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'gone', uid: 'gone' }] } },
      { metadata: { finalizers: ['test.space/x'] } },
    ];
    for (const name of [RECORD, 'told-by-labels'])
      for (const change of changes) {
        expect(await editor('PATCH', `${path}/${name}`, change)).toEqual(refused(INSTALLS));
        expect(await administrator('PATCH', `${path}/${name}`, change)).toEqual(done);
      }
    expect(await editor('PATCH', `${path}/plain`, { metadata: { labels: own } })).toEqual(refused(INSTALLS));
    for (const record of made) expect(await administrator('POST', path, record)).toEqual(done);
  });

  it('bytes written to a ConfigMap are a change, too', async () => {
    const bytes = { binaryData: { release: 'eA==' } };
    expect(await editor('PATCH', core('home', `configmaps/${RECORD}`), bytes)).toEqual(refused(INSTALLS));
  });

  it.each(kinds)('%s may be written as they are, and removed', async (_, path) => {
    // An administrator does this to have etcd encrypt everything again. No record is too large to be compared.
    const large = { ...named('large', own), data: { release: 'A'.repeat(1_000_000) } };
    await policyServer.create(path, large);
    for (const name of [RECORD, 'large']) {
      const { text } = await editor('GET', `${path}/${name}`);
      expect((await editor('PUT', `${path}/${name}`, JSON.parse(text) as object)).status).toBe(200);
    }
    const last = { data: { release: `${'A'.repeat(999_996)}eA==` } };
    expect(await editor('PATCH', `${path}/large`, last)).toEqual(refused(INSTALLS));
    expect((await administrator('PATCH', `${path}/large`, last)).status).toBe(200);
    const note = { metadata: { annotations: { note: 'x' } } };
    expect(await editor('PATCH', `${path}/${RECORD}`, note)).toEqual(done);
    expect(await editor('DELETE', `${path}/${RECORD}`)).toEqual(done);
  });

  it('a person who enters stored inputs writes no record of any release', async () => {
    const data = { data: { release: 'eA==' } };
    // Two rules refuse these, and the API server chooses which of them it reports.
    expect(await insider('PATCH', `${secrets}/${RECORD}`, data)).toEqual(refused("Helm's records of"));
    expect(await insider('POST', secrets, named('x', own))).toEqual(refused("Helm's records of"));
    const record = `${secrets}/sh.helm.release.v1.books.v1`;
    expect(await insider('PATCH', record, data)).toEqual(refused(LISTS));
    expect(await insider('POST', secrets, named('x', other))).toEqual(refused(LISTS));
    expect(await insider('POST', secrets, named('sh.helm.release.v1.books.v2'))).toEqual(refused(LISTS));
  });

  it('and can enter them', async () => {
    expect(await insider('POST', secrets, input)).toEqual(done);
    expect(await insider('PATCH', `${secrets}/plain`, { data: { value: 'eQ==' } })).toEqual(done);
    const labelled = { ...input, ...named('bank', { owner: 'mia', name: 'home' }) };
    expect(await insider('POST', secrets, labelled)).toEqual(done);
  });

  it.each(kinds)(
    'records of other releases may be written by a caller who may list them, among %s',
    async (_, path) => {
      expect(await editor('POST', path, named('sh.helm.release.v1.books.v2', other))).toEqual(done);
      // The name of a release may contain dots.
      const dotted = { ...other, name: 'home.v1' };
      expect(await editor('POST', path, named('sh.helm.release.v1.home.v1.v1', dotted))).toEqual(done);
      const data = { data: { release: 'eA==' } };
      expect(await editor('PATCH', `${path}/sh.helm.release.v1.books.v1`, data)).toEqual(done);
    },
  );

  it('a person who enters stored inputs gets no token of an account of that namespace', async () => {
    const says = refused('you may not get a token of the service account editor');
    expect(await insider('POST', secrets, token('lasting', 'editor'))).toEqual(says);
    expect(await editor('POST', secrets, token('lasting', 'editor'))).toEqual(done);
    await policyServer.create(secrets, token('theirs', 'insider'));
    const { metadata } = token('theirs', 'editor');
    expect(await insider('PATCH', `${secrets}/theirs`, { metadata })).toEqual(says);
    const plain = { metadata: { labels: { a: 'b' } } };
    expect(await insider('PATCH', `${secrets}/theirs`, plain)).toEqual(done);
  });

  it('nothing is reserved in another namespace', async () => {
    expect(await editor('POST', core(SERVICES, 'secrets'), named(RECORD, own))).toEqual(done);
    expect(await insider('POST', core('default', 'secrets'), token('lasting', 'default'))).toEqual(done);
  });
});

it('in the namespace of Capsules, a pod with the operator’s name and label has no special rights', async () => {
  const labels = { 'platform.space/space': 'home', 'platform.space/component': 'operator' };
  expect(await editor('POST', core('home', 'pods'), pod({}, labels))).toEqual(done);
  const secret = named('capsule-x-database', { 'platform.space/retained': 'true' });
  expect(await editor('POST', core('home', 'secrets'), secret)).toEqual(done);
});

/** Changes the services' namespace with every right. */
const becomes = (annotation: string | null) =>
  policyServer.server.client.call({
    method: 'PATCH',
    path: `/api/v1/namespaces/${SERVICES}`,
    contentType: 'application/merge-patch+json',
    body: { metadata: { annotations: { 'platform.space/open': annotation } } },
  });

it('an administrator opens the services to the outside, which anybody sees', async () => {
  await becomes('true');
  const service = { ...named('y'), spec: { type: 'NodePort', ports: [{ port: 80 }] } };
  const made = async () => (await editor('POST', core(SERVICES, 'services'), service)).status === 201;
  await eventually(made, { what: 'it is open' });
});

it('the services’ namespace takes its walls with it when it goes', async () => {
  await becomes('true');
  const path = `/api/v1/namespaces/${SERVICES}`;
  await eventually(() => policyServer.server.client.call({ method: 'DELETE', path }).then(() => true), {
    what: 'it is open',
  });
  await becomes(null);
  const gone = async () => (await editor('DELETE', `${policies(SERVICES)}/default-deny`)).status === 200;
  await eventually(gone, { what: 'its walls go' });
});
