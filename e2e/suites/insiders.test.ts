/**
 * The people and programs of a Space, each with the rights that it has, try what it may not do. Every attempt is
 * refused, and the refusal says why: by RBAC with `forbidden`, by an admission policy with its name, by a network
 * policy with silence.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bearer, type Person, person, removePeople } from './support/people.ts';
import {
  assistant,
  capsule,
  conditionOf,
  deleteCapsules,
  getAssistant,
  installed,
  kube,
  namespaceOf,
  programPod,
  ready,
  runningPod,
  services,
  system,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

const { space, namespace } = installed;
const GROUP = 'platform.space';
const [a, b] = [unique('insider-a'), unique('insider-b')];
const ASSISTANTS = { apiGroups: [GROUP], resources: ['assistants'] };
const ALL = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'];
const onCapsule = (name: string, verbs: readonly string[]) => ({
  apiGroups: [GROUP],
  resources: ['capsules'],
  resourceNames: [name],
  verbs,
});

const inside = { a: '', b: '' };
let broker = '';
const people = new Map<string, Person>();
const who = (name: string): Person => {
  const found = people.get(name);
  if (!found) throw new Error(`nobody is ${name}`);
  return found;
};

const labelled = (object: ReturnType<typeof assistant>) => ({
  ...object,
  metadata: { ...object.metadata, labels: { insider: 'theirs' } },
});

beforeAll(async () => {
  await kube.apply(
    capsule(a),
    capsule(b),
    assistant(a, 'mine', {}, `${a}-mine`),
    labelled(assistant(b, 'theirs', {}, `${b}-theirs`)),
  );
  people.set('viewer', await person('viewer', { role: `${space}-space-viewer` }));
  const deployer = [{ ...ASSISTANTS, verbs: ALL }, onCapsule(a, ['get', 'deploy'])];
  people.set('deployer of A', await person('deployer', { rules: deployer }));
  const administrator = [
    { ...ASSISTANTS, verbs: ALL },
    onCapsule(a, ['get', 'patch', 'update', 'deploy', 'approve', 'rotate']),
  ];
  people.set('administrator of A', await person('capsule-admin', { rules: administrator }));
  people.set('who enters inputs', await person('inputs', { role: `${space}-space-inputs` }));
  people.set('administrator of the Space', await person('space-admin', { role: `${space}-space-admin` }));
  people.set('editor of the cluster', await person('editor', { everywhere: 'edit' }));
  [inside.a, inside.b] = [await namespaceOf(a), await namespaceOf(b)];
  broker = (await programPod(services, 'db-broker')).metadata.name;
  await ready('assistant', `${a}-mine`);
  await ready('assistant', `${b}-theirs`);
  await kube.apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: `${b}-input`, namespace, labels: { [`${GROUP}/capsule`]: b } },
    type: `${GROUP}/stored-input`,
    stringData: { value: 'of the other Capsule' },
  });
});

afterAll(async () => {
  await kube.remove('secret', `${b}-input`, namespace);
  await removePeople(...people.values());
  await deleteCapsules(a, b);
});

/** Who attacks, the attempt as `kubectl` arguments (or an object to apply), and the text of the refusal. */
type Attack = readonly [string, () => readonly string[] | object, string | RegExp];

async function refuses(name: string, attempt: ReturnType<Attack[1]>, says: string | RegExp): Promise<void> {
  const { code, stdout, stderr } = Array.isArray(attempt)
    ? await who(name).run(attempt)
    : await who(name).create(attempt);
  expect([code === 0 ? 'it was done' : 'it was refused', `${stdout}${stderr}`]).toEqual([
    'it was refused',
    typeof says === 'string' ? expect.stringContaining(says) : expect.stringMatching(says),
  ]);
}

const words = (line: string) => line.split(' ');
const here = (line: string) => [...words(line), '-n', namespace];
const annotate = (kind: string, name: string, key: string, value = 'true') =>
  here(`annotate ${kind} ${name} ${GROUP}/${key}=${value} --overwrite`);
const merge = (kind: string, name: string, body: object, place = namespace) => [
  ...['patch', kind, name, '-n', place, '--type=merge', '-p'],
  JSON.stringify(body),
];
/** It satisfies Pod Security, so that only a policy of the chart can refuse it. */
const pod = (place: string, spec: object = {}, labels: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'insider', namespace: place, labels },
  spec: {
    securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'insider',
        image: installed.image,
        command: ['sleep', '1'],
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
    ...spec,
  },
});
const bad = { platform: { spec: 2 } };
const FORBIDDEN = /forbidden: User/;
const RBAC = 'forbidden: User';
const policy = (name: string) => `ValidatingAdmissionPolicy '${space}-${name}'`;
const digest = `sha256:${'0'.repeat(64)}`;

describe('a viewer may not', () => {
  it.each<Attack>([
    ['delete a Capsule', () => here(`delete capsule ${a}`), RBAC],
    ['delete an Assistant', () => here(`delete assistant ${a}-mine`), RBAC],
    ['deploy one', () => assistant(a, 'new', {}, `${a}-new`), RBAC],
    ['change a Capsule', () => merge('capsule', a, { spec: { suspend: true } }), RBAC],
    [
      'write a status',
      () => merge('capsule', a, { status: { observedGeneration: 9 } }).concat('--subresource=status'),
      RBAC,
    ],
    ['read a stored input', () => here(`get secret ${b}-input`), RBAC],
    ['read a principal', () => words(`get secret capsule-${a}-database -n ${system}`), RBAC],
    ['read an Assistant’s database URL', () => words(`get secret mine-database -n ${inside.a}`), RBAC],
    ['run a command in an Assistant', () => words(`exec deploy/mine -n ${inside.a} -- id`), RBAC],
    ['approve', () => annotate('assistant', `${a}-mine`, 'approved', digest), RBAC],
  ])('%s', (_, attempt, says) => refuses('viewer', attempt(), says));
});

describe('a deployer of A may not', () => {
  it.each<Attack>([
    [
      'delete B’s Assistant, and with it its data',
      () => here(`delete assistant ${b}-theirs`),
      'you may not delete from the Capsule',
    ],
    [
      'delete everybody’s at once',
      () => words(`delete assistants -l insider=theirs -n ${namespace} --wait=false`),
      'you may not delete from the Capsule',
    ],
    ['deploy into B', () => assistant(b, 'new', {}, `${b}-new`), 'you may not deploy into the Capsule'],
    [
      'change B’s Assistant',
      () => merge('assistant', `${b}-theirs`, { spec: { replicas: 3 } }),
      'you may not deploy into the Capsule',
    ],
    [
      'scale B’s Assistant away',
      () => merge('assistant', `${b}-theirs`, { spec: { suspend: true } }),
      'you may not deploy into the Capsule',
    ],
    ['move its own into B', () => merge('assistant', `${a}-mine`, { spec: { capsule: b } }), 'immutable'],
    [
      'take another id, and with it that one’s database',
      () => merge('assistant', `${a}-mine`, { spec: { manifest: { platform: { id: 'theirs' } } } }),
      'immutable',
    ],
    [
      'approve its own powers',
      () => annotate('assistant', `${a}-mine`, 'approved', digest),
      'You need the verb approve',
    ],
    ['rotate', () => annotate('assistant', `${a}-mine`, 'rotate'), 'You need the verb rotate'],
    ['open its own Assistant', () => annotate('assistant', `${a}-mine`, 'open'), 'You need the verb open'],
    [
      'take the operator’s finalizer off',
      () => merge('assistant', `${a}-mine`, { metadata: { finalizers: [] } }),
      'only the operator removes',
    ],
    [
      'take it off B’s',
      () => merge('assistant', `${b}-theirs`, { metadata: { finalizers: [] } }),
      /only the operator removes|deploy/,
    ],
    [
      'have the cluster’s collector of garbage delete B’s for it',
      () =>
        merge('assistant', `${b}-theirs`, {
          metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: 'gone' }] },
        }),
      'you may not deploy into the Capsule',
    ],
    [
      'have a Secret sent to its Assistant that it may not read',
      () =>
        merge('assistant', `${a}-mine`, {
          spec: { storedInputs: { bank: { secretKeyRef: { name: `${b}-input`, key: 'value' } } } },
        }),
      'you may not read the Secret',
    ],
    [
      'write a manifest that is none',
      () => merge('assistant', `${a}-mine`, { spec: { manifest: bad } }),
      'spec.manifest',
    ],
    ['change its Capsule', () => merge('capsule', a, { spec: { quota: { assistants: 1000 } } }), RBAC],
    [
      'write its Assistant’s status',
      () => merge('assistant', `${a}-mine`, { status: { conditions: [] } }).concat('--subresource=status'),
      RBAC,
    ],
    ['read its own Assistant’s Secrets', () => words(`get secret mine-database -n ${inside.a}`), RBAC],
    [
      'make a Deployment beside its Assistant',
      () => words(`create deployment x --image=x -n ${inside.a}`),
      RBAC,
    ],
    [
      'make a Secret that would be a principal',
      () => words(`create secret generic capsule-${b}-database -n ${system}`),
      RBAC,
    ],
  ])('%s', (_, attempt, says) => refuses('deployer of A', attempt(), says));

  it('take over another’s id by an Assistant of another name: the first keeps it', async () => {
    const twin = `${a}-twin`;
    expect((await who('deployer of A').apply(assistant(a, 'mine', {}, twin))).code).toBe(0);
    await untilCondition('assistant', twin, 'Accepted', 'False', 'DuplicateIdentifier');
    expect((await who('deployer of A').run(here(`delete assistant ${twin}`))).code).toBe(0);
    expect(conditionOf(await getAssistant(`${a}-mine`), 'Ready')?.status).toBe('True');
    await runningPod(inside.a, 'mine');
  });
});

describe('an administrator of A may not', () => {
  it.each<Attack>([
    ['delete A', () => here(`delete capsule ${a}`), RBAC],
    [
      'have the cluster’s collector of garbage delete A for it',
      () =>
        merge('capsule', a, {
          metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: 'gone' }] },
        }),
      'You need the verb delete',
    ],
    ['make another Capsule', () => capsule(unique('third')), RBAC],
    ['change B', () => merge('capsule', b, { spec: { approval: 'manual' } }), RBAC],
    [
      'approve in B',
      () => annotate('assistant', `${b}-theirs`, 'approved', digest),
      'You need the verb approve',
    ],
    ['rotate B', () => annotate('assistant', `${b}-theirs`, 'rotate'), 'You need the verb rotate'],
    ['open A', () => annotate('capsule', a, 'open'), 'You need the verb open'],
    [
      'take the finalizer off A',
      () => merge('capsule', a, { metadata: { finalizers: [] } }),
      'only the operator removes',
    ],
    [
      'write A’s status',
      () => merge('capsule', a, { status: { namespace: inside.b } }).concat('--subresource=status'),
      RBAC,
    ],
    ['read A’s principal', () => words(`get secret capsule-${a}-database -n ${system}`), RBAC],
    [
      'change a network policy of A',
      () => words(`delete networkpolicy space-default-deny -n ${inside.a}`),
      RBAC,
    ],
    [
      'raise what A’s namespace may have',
      () => merge('resourcequota', 'space-quota', { spec: { hard: { pods: '9999' } } }, inside.a),
      RBAC,
    ],
  ])('%s', (_, attempt, says) => refuses('administrator of A', attempt(), says));
});

describe('who enters stored inputs may not', () => {
  const labels = { owner: 'helm', name: space, status: 'deployed', version: '99' };
  const record = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, labels },
    type: 'helm.sh/release.v1',
  });
  it.each<Attack>([
    [
      'write a record of Helm’s that says what it does next',
      () => record(`sh.helm.release.v1.${space}.v99`),
      policy('reserved-records'),
    ],
    ['write such a record under another name', () => record('insider'), policy('reserved-records')],
    [
      'have a token of an account that is there',
      () => ({
        ...record('token'),
        metadata: {
          name: 'token',
          namespace,
          annotations: { 'kubernetes.io/service-account.name': 'default' },
        },
        type: 'kubernetes.io/service-account-token',
      }),
      policy('reserved-tokens'),
    ],
    ['list what else is entered', () => here('get secrets'), RBAC],
    ['delete it', () => here(`delete secret ${b}-input`), RBAC],
  ])('%s', (_, attempt, says) => refuses('who enters inputs', attempt(), says));
});

describe('an administrator of the Space may not', () => {
  it.each<Attack>([
    ['read a principal', () => words(`get secret capsule-${a}-database -n ${system}`), RBAC],
    [
      'read the administrator’s credential of PostgreSQL',
      () => words(`get secret db-admin -n ${services}`),
      RBAC,
    ],
    ['list the Secrets of the operator', () => words(`get secrets -n ${system}`), RBAC],
    ['run a pod beside the operator', () => pod(system), RBAC],
    ['run a pod beside the services', () => pod(services), RBAC],
    ['have a token of the operator', () => words(`create token ${space}-operator -n ${system}`), RBAC],
    ['run a command in a broker', () => words(`exec deploy/db-broker -n ${services} -- id`), RBAC],
    ['read an Assistant’s database URL', () => words(`get secret mine-database -n ${inside.a}`), RBAC],
    ['delete the kind of all Capsules', () => words('delete crd capsules.platform.space'), RBAC],
    ['delete a Capsule’s namespace', () => words(`delete namespace ${inside.a}`), RBAC],
    ['change a policy', () => words(`delete validatingadmissionpolicy ${space}-sandbox`), RBAC],
    [
      'give itself more',
      () => words(`create rolebinding more --clusterrole=cluster-admin --user=me -n ${namespace}`),
      RBAC,
    ],
    [
      'be the operator',
      () => words(`get secrets -n ${system} --as=system:serviceaccount:${system}:${space}-operator`),
      FORBIDDEN,
    ],
  ])('%s', (_, attempt, says) => refuses('administrator of the Space', attempt(), says));
});

describe('who has Kubernetes’ role edit in every namespace may not', () => {
  const reserved = policy('reserved-workloads');
  it.each<Attack>([
    ['run a pod as the operator', () => pod(system, { serviceAccountName: `${space}-operator` }), reserved],
    ['run a pod beside the operator', () => pod(system), reserved],
    [
      'run a pod that mounts the keys of the services',
      () => pod(services, { volumes: [{ name: 'k', secret: { secretName: 'db-admin' } }] }),
      reserved,
    ],
    [
      'change the operator',
      () => words(`set image deploy/${space}-operator operator=evil -n ${system}`),
      reserved,
    ],
    ['change a broker', () => words(`set env deploy/db-broker X=Y -n ${services}`), reserved],
    ['make a Job there', () => words(`create job x --image=x -n ${system}`), reserved],
    [
      'run the program of keys with another command',
      () => words(`create job x --image=x -n ${services}`),
      reserved,
    ],
    [
      'have a token of the operator',
      () => words(`create token ${space}-operator -n ${system}`),
      /reserved-workloads|forbidden: User/,
    ],
    [
      'run a command in the operator',
      () => words(`exec deploy/${space}-operator -n ${system} -- id`),
      reserved,
    ],
    [
      'debug a broker',
      () => words(`debug ${broker} -n ${services} --image=x --target=db-broker -q`),
      /reserved-workloads|forbidden: User/,
    ],
    [
      'have a lasting token of the operator',
      () => ({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          name: 'token',
          namespace: system,
          annotations: { 'kubernetes.io/service-account.name': `${space}-operator` },
        },
        type: 'kubernetes.io/service-account-token',
      }),
      policy('reserved-secrets'),
    ],
    [
      'make up a retained principal',
      () => ({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'capsule-third-database', namespace: system },
      }),
      policy('reserved-secrets'),
    ],
    [
      'exchange the authority that the operator trusts',
      () => merge('configmap', 'space-ca', { data: { 'ca.crt': 'mine' } }, system),
      policy('reserved-secrets'),
    ],
    [
      'open the broker to everybody',
      () => ({
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'hole', namespace: services },
        spec: { podSelector: {}, ingress: [{}] },
      }),
      policy('reserved-walls'),
    ],
    [
      'remove the services’ network policies',
      () => words(`delete networkpolicy default-deny -n ${services}`),
      policy('reserved-walls'),
    ],
    [
      'put a broker on the Internet',
      () => merge('service', 'db-broker', { spec: { type: 'LoadBalancer' } }, services),
      policy('reserved-services'),
    ],
    [
      'expose the gateway by a port of each node',
      () =>
        words(`expose deploy/platform-assistant-egress --type=NodePort --port=3128 --name=x -n ${services}`),
      policy('reserved-services'),
    ],
    [
      'route an Ingress to a broker',
      () => words(`create ingress x --rule=x.org/*=db-broker:8080 -n ${services}`),
      policy('reserved-services'),
    ],
    [
      'take the Lease',
      () => merge('lease', `${space}-operator`, { spec: { holderIdentity: 'me' } }, system),
      /reserved-lease|forbidden: User/,
    ],
    [
      'delete a principal',
      () => words(`delete secret capsule-${a}-database -n ${system}`),
      policy('protected-principals'),
    ],
    ['run a pod in a Capsule, outside the sandbox', () => pod(inside.a), policy('sandbox')],
    [
      'run one in the sandbox that proves nothing',
      () => pod(inside.a, { runtimeClassName: 'gvisor' }),
      policy('sandbox'),
    ],
    [
      'change a Capsule’s network policies',
      () => words(`delete networkpolicy space-default-deny -n ${inside.a}`),
      policy('protected-walls'),
    ],
    [
      'raise its quota',
      () => merge('resourcequota', 'space-quota', { spec: { hard: { pods: '9999' } } }, inside.a),
      /protected-walls|forbidden: User/,
    ],
    [
      'take a running pod’s labels, by which the operator knows it',
      () => words(`label pods --all ${GROUP}/assistant- -n ${inside.a}`),
      policy('protected-workloads'),
    ],
  ])('%s', (_, attempt, says) => refuses('editor of the cluster', attempt(), says));
});

describe('who has the operator’s token may not', () => {
  const fence = policy('operator-fence');
  beforeAll(async () => {
    const read =
      "process.stdout.write(require('node:fs').readFileSync('/var/run/secrets/kubernetes.io/serviceaccount/token'))";
    // Of several replicas one alone may write into Capsules.
    const token = await until('an operator to lead', async () => {
      const lease = await kube.get('lease', `${space}-operator`, system);
      const holder: string = lease?.['spec'].holderIdentity ?? '';
      const pods = await kube.list('pods', system, `${GROUP}/component=operator`);
      const leader = pods.map(({ metadata }) => metadata.name).find((name) => holder.startsWith(`${name}_`));
      if (leader === undefined) return undefined;
      // One that a rollout replaced may hold it still, and end meanwhile.
      return (await kube.exec(system, leader, ['node', '-e', read])).stdout || undefined;
    });
    people.set('the operator', await bearer(unique('operator'), token));
  });
  it('do more with it than the operator, which it is', async () => {
    const { stdout } = await who('the operator').run(words('auth whoami'));
    expect(stdout).toContain(`system:serviceaccount:${system}:${space}-operator`);
  });
  const privileged = { 'pod-security.kubernetes.io/enforce': 'privileged' };
  const unlabelled = { [`${GROUP}/space`]: null, [`${GROUP}/capsule`]: null };
  const binding = (place: string, role: string) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'insider', namespace: place },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'ServiceAccount', name: `${space}-operator`, namespace: system }],
  });
  it.each<Attack>([
    ['read the administrator’s credential', () => words(`get secret db-admin -n ${services}`), RBAC],
    ['read the key of the S3 server', () => words(`get secret s3-root -n ${services}`), RBAC],
    ['list the Secrets of people', () => words(`get secrets -n ${namespace}`), RBAC],
    ['list its own', () => words(`get secrets -n ${system}`), RBAC],
    ['write a Secret where people keep theirs', () => merge('secret', `${b}-input`, { data: {} }), RBAC],
    [
      'remove the labels by which a Capsule’s namespace is isolated',
      () => merge('namespace', inside.a, { metadata: { labels: unlabelled } }, namespace),
      fence,
    ],
    [
      'admit any pod into it',
      () => merge('namespace', inside.a, { metadata: { labels: privileged } }, namespace),
      fence,
    ],
    [
      'open it',
      () =>
        merge('namespace', inside.a, { metadata: { annotations: { [`${GROUP}/open`]: 'true' } } }, namespace),
      fence,
    ],
    ['make a namespace for something else', () => words('create namespace insider'), fence],
    [
      'make the cluster’s own a Capsule’s',
      () =>
        merge(
          'namespace',
          'kube-system',
          { metadata: { labels: { [`${GROUP}/space`]: space, [`${GROUP}/capsule`]: a } } },
          namespace,
        ),
      /operator-fence|protected-marks/,
    ],
    ['write beside the services', () => words(`create configmap x -n ${services}`), fence],
    ['write beside people', () => words(`create configmap x -n ${namespace}`), fence],
    [
      'help itself to the Secrets of the services',
      () => binding(services, `${space}-capsule-secrets`),
      fence,
    ],
    ['help itself to everything in a Capsule', () => binding(inside.a, 'cluster-admin'), /forbidden/],
    ['run a pod of its own', () => pod(system), /operator-fence|violates PodSecurity/],
    ['run a pod in a Capsule', () => pod(inside.a), RBAC],
    ['run a command in an Assistant', () => words(`exec deploy/mine -n ${inside.a} -- id`), RBAC],
    [
      'change the class of the sandbox',
      () => merge('runtimeclass', 'gvisor', { handler: 'runc' }, namespace),
      RBAC,
    ],
    [
      'take down the policy that fences it',
      () => words(`delete validatingadmissionpolicy ${space}-operator-fence`),
      RBAC,
    ],
    ['widen its own role', () => merge('clusterrole', `${space}-operator`, { rules: [] }, namespace), RBAC],
    ['have a token of another account', () => words(`create token default -n ${services}`), RBAC],
    ['be an administrator', () => words('get secrets -A --as=admin --as-group=system:masters'), RBAC],
    [
      'name a node as proved',
      () => merge('node', 'x', { status: {} }, namespace).concat('--subresource=status'),
      RBAC,
    ],
    ['delete a Capsule', () => here(`delete capsule ${a}`), RBAC],
  ])('%s', (_, attempt, says) => refuses('the operator', attempt(), says));

  it('run anything in a Capsule outside the sandbox: its Deployment is made, and its pods are refused', async () => {
    const name = 'insider';
    const template = { metadata: { labels: { insider: 'x' } }, spec: pod(inside.a).spec };
    const deployment = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace: inside.a },
      spec: { selector: { matchLabels: { insider: 'x' } }, template },
    };
    try {
      expect(await who('the operator').apply(deployment)).toMatchObject({ code: 0 });
      await kube.run(
        words(`wait deployment/${name} -n ${inside.a} --for=condition=ReplicaFailure --timeout=120s`),
      );
      const made = await kube.get('deployment', name, inside.a);
      const failure = conditionOf(made, 'ReplicaFailure');
      expect(failure?.message).toMatch(/PodSecurity|-sandbox'/);
      expect(await kube.list('pods', inside.a, 'insider=x')).toEqual([]);
    } finally {
      await kube.remove('deployment', name, inside.a);
    }
  });
});

const address = async (place: string, service: string) =>
  (await kube.get('service', service, place))?.['spec'].clusterIP;

/** Connects to each target; a network policy drops connections that it does not allow. */
const REACH = `
  const { connect } = require('node:net');
  const tried = process.argv.slice(1).map((target) => new Promise((resolve) => {
    const [host, port] = target.split(' ');
    const socket = connect({ host, port: Number(port) });
    const end = (how) => { socket.destroy(); resolve([target, how]); };
    socket.setTimeout(3000, () => end('timeout'));
    socket.on('connect', () => end('connected'));
    socket.on('error', (error) => end(error.code));
  }));
  Promise.all(tried).then((ended) => console.log(JSON.stringify(Object.fromEntries(ended))));
`;
const LOOK = `
  const { readdirSync, existsSync } = require('node:fs');
  const mounted = (path) => existsSync(path) ? readdirSync(path).filter((name) => !name.startsWith('.')).sort() : [];
  console.log(JSON.stringify({
    token: existsSync('/var/run/secrets/kubernetes.io/serviceaccount/token'),
    space: mounted('/etc/space'),
    links: Object.keys(process.env).filter((key) => /_SERVICE_HOST$/.test(key) && key !== 'KUBERNETES_SERVICE_HOST'),
    root: process.getuid() === 0,
  }));
`;

describe.each([
  ['the database broker', 'db-broker', ['postgres 5432']],
  ['the object-storage broker', 'objectstore-broker', ['s3 7070', 'postgres 5432']],
  ['the egress gateway', 'egress', []],
])('who has taken over %s', (_, component, open) => {
  const run = async (...argv: readonly string[]) => {
    const { name } = (await programPod(services, component)).metadata;
    const { stdout, stderr } = await kube.exec(services, name, ['node', '-e', ...argv]);
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout);
  };

  it('has no token of the API server, is not root, and sees no addresses of others', async () => {
    expect(await run(LOOK)).toMatchObject({ token: false, root: false, links: [] });
  });

  it('reaches what it needs for its work, and neither the other parts nor the cluster', async () => {
    const { postgres, s3 } = installed.engines;
    const everything = {
      'postgres 5432': `${await address(postgres.namespace, postgres.service)} 5432`,
      's3 7070': `${await address(s3.namespace, s3.service)} 7070`,
      'db-broker 8080': `${await address(services, 'db-broker')} 8080`,
      'objectstore-broker 8080': `${await address(services, 'objectstore-broker')} 8080`,
      'api 443': `${await address('default', 'kubernetes')} 443`,
      'operator 8081': `${(await programPod(system, 'operator')).status.podIP} 8081`,
      'assistant 8080': `${(await runningPod(inside.a, 'mine')).status.podIP} 8080`,
      'kubelet 10250': `${(await runningPod(inside.a, 'mine')).status.hostIP} 10250`,
      'metadata 80': '169.254.169.254 80',
    };
    const own = component === 'egress' ? [] : [`${component} 8080`];
    const asked = Object.entries(everything).filter(([name]) => !own.includes(name));
    // Again until it has reached what it needs, which may take more than one try on a busy machine, or anything else.
    const seen = await until('what it needs to be reached', async () => {
      const ends = await run(REACH, ...asked.map(([, target]) => target));
      const found = Object.fromEntries(asked.map(([name, target]) => [name, ends[target] === 'connected']));
      const isAstray = Object.entries(found).some(([name, isReached]) => isReached && !open.includes(name));
      return open.every((name) => found[name]) || isAstray ? found : undefined;
    });
    expect(seen).toEqual(Object.fromEntries(asked.map(([name]) => [name, open.includes(name)])));
  });
});
