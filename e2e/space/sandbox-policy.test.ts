/** Which pods a Capsule's namespace admits, according to a real API server with the chart's policies. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkManifest } from '@space/manifests';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWorkload } from '../../operator/assistant/identity.ts';
import { deploymentObject } from '../../operator/assistant/pod-template.ts';
import { ApiError } from '../../operator/runtime/errors.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { findTool } from '../cluster/tools.ts';
import { someImage } from './chart.ts';
import { sandboxPolicies } from './policies.ts';

interface Pod {
  metadata: { name: string; labels?: object; annotations?: object };
  // biome-ignore lint/suspicious/noExplicitAny: the cases bend single fields of it
  spec: any;
}

const ATTESTER = someImage('attester');
const CAPSULE = 'home-household-0123abcd';
/** A namespace with only one of the labels does not belong to a Capsule of any Space. */
const FOREIGN = 'foreign';
const OLDER = 'home-older-89abcdef';
const OTHER_CAPSULE = 'cabin-household-4567cdef';
/** The address of each Space's canary, in the range of the test's API server. */
const CANARIES = { home: '10.96.1.77', cabin: '10.96.1.78' };
const CLASSES = '/apis/node.k8s.io/v1/runtimeclasses';

let directory: string;
let helm: string;
let server: ApiServer;

const ofCapsule = (space: string) => ({
  'platform.space/space': space,
  'platform.space/capsule': 'household',
});
const runtimeClass = (name: string, handler: string) => ({ metadata: { name }, handler });
const pods = (namespace: string, name?: string) =>
  `/api/v1/namespaces/${namespace}/pods${name === undefined ? '' : `/${name}`}`;
const post = (path: string, body: unknown, query: Record<string, string> = {}) =>
  server.client.call({ method: 'POST', path, body, query });
const patch = (path: string, body: unknown) =>
  server.client.call({ method: 'PATCH', path, body, contentType: 'application/strategic-merge-patch+json' });

/** The restrictions on the attester. */
const BARE = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
};

/** The pod that the operator's Deployment makes the cluster create. */
function madeByOperator(space: keyof typeof CANARIES = 'home'): Pod {
  const check = checkManifest(manifest('ledger'));
  if (!check.ok) throw new Error('the manifest of the tests is not valid');
  const names = {
    space: 'home',
    namespace: 'home',
    systemNamespace: 'home-system',
    servicesNamespace: 'home-services',
    runtimeClass: 'gvisor',
    handler: 'runsc',
    attesterImage: ATTESTER,
    handlerReport: 'node',
    onLoss: 'keep',
    graceMs: 0,
  } as const;
  const spec = { capsule: 'household', image: 'registry.test/ledger:1', manifest: check.manifest };
  const assistant = { metadata: { name: 'ledger', uid: 'u' }, spec };
  const { desired } = deploymentObject(describeWorkload(names, assistant, check.manifest), {
    database: { digest: 'd', verified: true },
    postgresAddress: '10.96.0.7',
    canaryAddresses: [CANARIES[space]],
  });
  const { metadata, spec: pod } = (desired['spec'] as { template: Pod }).template;
  return structuredClone({ metadata: { ...metadata, name: 'ledger' }, spec: pod });
}

/** A copy of the operator's pod with something changed in it. */
function but(
  change: (pod: Pod, spec: Pod['spec'], attester: object) => void,
  space?: keyof typeof CANARIES,
): Pod {
  const pod = madeByOperator(space);
  change(pod, pod.spec, pod.spec.initContainers[0]);
  return pod;
}

/** The API server's refusal of a pod, which is not stored; '' if it is admitted. */
async function verdict(pod: Pod, namespace = CAPSULE): Promise<string> {
  const named = { ...pod, metadata: { ...pod.metadata, name: 'judged' } };
  return said(() => post(pods(namespace), named, { dryRun: 'All' }));
}

async function said(ask: () => Promise<unknown>): Promise<string> {
  try {
    await ask();
    return '';
  } catch (error) {
    if (error instanceof ApiError && [403, 422].includes(error.status)) return error.message;
    throw error;
  }
}

const policiesOf = (space: string, settings: Record<string, string> = {}) =>
  sandboxPolicies(helm, space, {
    'sandbox.attester.image': ATTESTER,
    'sandbox.podAnnotations[0]': 'example.org/named',
    'sandbox.attester.accepted[0]': OLD_ATTESTER,
    ...settings,
  });
const OLD_ATTESTER = someImage('old-attester');

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-sandbox-policy-'));
  helm = await findTool('helm', directory);
  server = await startApiServer();
  for (const [name, labels] of Object.entries({
    [CAPSULE]: ofCapsule('home'),
    [OLDER]: {},
    [FOREIGN]: { 'platform.space/capsule': 'household' },
    [OTHER_CAPSULE]: ofCapsule('cabin'),
  }))
    await post('/api/v1/namespaces', { metadata: { name, labels } });
  for (const [space, clusterIP] of Object.entries(CANARIES)) {
    const services = `${space}-services`;
    const labels = { 'platform.space/space': space };
    await post('/api/v1/namespaces', { metadata: { name: services, labels } });
    const service = { metadata: { name: 'canary' }, spec: { clusterIP, ports: [{ port: 7001 }] } };
    await post(`/api/v1/namespaces/${services}/services`, service);
  }
  await post(CLASSES, runtimeClass('gvisor', 'runsc'));
  await post(CLASSES, runtimeClass('kata', 'kata-qemu'));
  const cabin = { 'sandbox.runtimeClass': 'kata', 'sandbox.handler': 'kata-qemu' };
  for (const { path, object } of [...(await policiesOf('home')), ...(await policiesOf('cabin', cabin))])
    await post(path, object);
  // A policy is in force a moment after it was created, and admits pods a moment later.
  const bare = but((_, spec) => delete spec.initContainers);
  for (const namespace of [CAPSULE, OTHER_CAPSULE])
    await eventually(async () => (await verdict(bare, namespace)) !== '', {
      what: `${namespace} is guarded`,
    });
}, 900_000);

afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

describe('a Capsule admits', () => {
  it('the pod that the operator creates', async () => expect(await verdict(madeByOperator())).toBe(''));

  it('one with more init containers after the attester', async () => {
    const pod = but((_, spec) => spec.initContainers.push({ name: 'more', image: 'registry.test/more:1' }));
    expect(await verdict(pod)).toBe('');
  });

  it('one with annotations of the cluster’s own, and with those that an administrator names', async () => {
    const annotated = (key: string) =>
      but((pod) => {
        Object.assign(pod.metadata, { annotations: { ...pod.metadata.annotations, [key]: 'x' } });
      });
    expect(await verdict(annotated('kubernetes.io/limit-ranger'))).toBe('');
    expect(await verdict(annotated('example.org/named'))).toBe('');
    expect(await verdict(annotated('example.org/unnamed'))).toContain('example.org/unnamed');
  });

  it('one whose attester is of the release before, while the Space accepts that one', async () => {
    const old = but((_, __, attester) => Object.assign(attester, { image: OLD_ATTESTER }));
    expect(await verdict(old)).toBe('');
    const strange = but((_, __, attester) => Object.assign(attester, { image: `${OLD_ATTESTER}1` }));
    expect(await verdict(strange)).toContain('first init container must be the attester');
  });

  // Some versions of Kubernetes write the user into each such container.
  it('one whose containers the cluster has given a user of their own, as OpenShift does', async () => {
    const pod = madeByOperator();
    for (const container of [...pod.spec.initContainers, ...pod.spec.containers])
      Object.assign(container.securityContext, { runAsUser: 1_000_680_000, runAsNonRoot: true });
    expect(await verdict(pod)).toBe('');
  });

  it('one whose PostgreSQL has an IPv6 address', async () => {
    const v6 = but((_, { initContainers: [attester] }) => {
      const told = (text: string) => text.replace(/^([+]PostgreSQL=).*$/, '$1fd00:10:96::7:5432');
      attester.command = attester.command.map(told);
      expect(attester.command).toContain('+PostgreSQL=fd00:10:96::7:5432');
    });
    expect(await verdict(v6)).toBe('');
  });

  it('one whose attester has a resize policy', async () => {
    const resizePolicy = [{ resourceName: 'cpu', restartPolicy: 'NotRequired' }];
    expect(await verdict(but((_, __, attester) => Object.assign(attester, { resizePolicy })))).toBe('');
  });

  it('only pods in the sandbox, while the services’ namespace admits others', async () => {
    const bare = but((_, spec) => {
      delete spec.runtimeClassName;
      delete spec.initContainers;
    });
    expect(await verdict(bare, 'home-services')).toBe('');
    // The policy does not judge the operator's own pod there either, although its attester names a canary that does
    // not exist.
    expect(await verdict(madeByOperator('cabin'), 'home-services')).toBe('');
  });

  it('the pods of its own Space’s sandbox only, as those of another Space are judged by that Space', async () => {
    // Only one rule is broken at a time, since the API server chooses which of several it reports.
    const kata = (space: keyof typeof CANARIES) =>
      but((_, spec) => {
        spec.runtimeClassName = 'kata';
      }, space);
    expect(await verdict(kata('cabin'), OTHER_CAPSULE)).toBe('');
    const gvisor = madeByOperator('cabin');
    expect(await verdict(gvisor, OTHER_CAPSULE)).toContain('must have runtimeClassName "kata"');
    expect(await verdict(kata('home'))).toContain('must have runtimeClassName "gvisor"');
  });
});

describe('a Capsule refuses', () => {
  const COMMAND = ['/attest', '-the canary=10.96.1.77:7002', '+PostgreSQL=10.96.0.7:5432'];
  it.each(['-the canary=10.96.1.78:7002', '-the canary=10.96.1.77:7001', '-x=10.96.1.77:7002'])(
    'a pod whose attester tries %s in the place of its Space’s canary',
    async (target) => {
      const command = ['/attest', target, '+PostgreSQL=10.96.0.7:5432'];
      const pod = but((_, __, attester) => Object.assign(attester, { command }));
      expect(await verdict(pod)).toContain('must test the canary at 10.96.1.77');
    },
  );

  // The API server chooses which of two broken rules it reports.
  it.each([
    ['its image’s own command', undefined],
    ['nothing to try', ['/attest']],
    ['the command of a listener', ['/attest', 'listen', '7002']],
  ])('an attester with %s', async (_, command) => {
    const pod = but((_pod, _spec, attester) => Object.assign(attester, { command }));
    expect(await verdict(pod)).toMatch(/first init container must be the attester|must test the canary at/);
  });

  const ATTESTER_FIRST = 'first init container must be the attester';
  it.each<[string, Pod, string]>([
    ['a pod without a class', but((_, spec) => delete spec.runtimeClassName), 'must have runtimeClassName'],
    [
      'one with another class',
      but((_, spec) => {
        spec.runtimeClassName = 'kata';
      }),
      'must have runtimeClassName',
    ],
    ['one without init containers', but((_, spec) => delete spec.initContainers), ATTESTER_FIRST],
    [
      'one that starts something before the attester',
      but((_, spec) => spec.initContainers.unshift({ name: 'first', image: 'registry.test/first:1' })),
      ATTESTER_FIRST,
    ],
    ...(
      [
        ['another name', { name: 'attestor' }],
        ['another image', { image: 'registry.test/attester:2' }],
        ['another command', { command: ['/bin/true', ...COMMAND.slice(1)] }],
        ['arguments', { args: ['--help'] }],
        ['a variable', { env: [{ name: 'LD_PRELOAD', value: '/x' }] }],
        ['variables from elsewhere', { envFrom: [{ configMapRef: { name: 'x' } }] }],
        ['a mount', { volumeMounts: [{ name: 'tmp', mountPath: '/proc/x' }] }],
        ['a working directory', { workingDir: '/tmp' }],
        ['less to try', { command: COMMAND.slice(0, 2) }],
        ['more to try', { command: [...COMMAND, '+x=10.0.0.1:1'] }],
        ['a clock of its own choice', { command: [...COMMAND.slice(0, 2), '+x=10.0.0.1:1'] }],
        // The kubelet starts what follows a running one, also while its hook fails.
        ['a restart policy', { restartPolicy: 'Always' }],
        [
          'a restart policy and a hook',
          { restartPolicy: 'Always', lifecycle: { postStart: { exec: { command: COMMAND } } } },
        ],
        [
          'a restart policy and a startup probe',
          { restartPolicy: 'Always', startupProbe: { exec: { command: COMMAND } } },
        ],
        ['a termination message in another place', { terminationMessagePath: '/attest' }],
        ['other privileges', { securityContext: { runAsUser: 0 } }],
        ['root as its user', { securityContext: { ...BARE, runAsUser: 0 } }],
        ['leave to be root', { securityContext: { ...BARE, runAsNonRoot: false } }],
        ['a label of SELinux', { securityContext: { ...BARE, seLinuxOptions: { type: 'spc_t' } } }],
        ['more capabilities', { securityContext: { ...BARE, capabilities: { add: ['SYS_ADMIN'] } } }],
        ['a device claim', { resources: { claims: [{ name: 'gpu' }] } }],
      ] as [string, Record<string, unknown>][]
    ).map(([what, changes]): [string, Pod, string] => [
      `an attester with ${what}`,
      but((_, spec, attester) => {
        Object.assign(attester, changes);
        if (what === 'a device claim') spec.resourceClaims = [{ name: 'gpu', resourceClaimName: 'gpu' }];
      }),
      ATTESTER_FIRST,
    ]),
    [
      'a seccomp profile of the node’s, which could answer in the kernel’s place',
      but((_, spec) => {
        spec.securityContext = { seccompProfile: { type: 'Localhost', localhostProfile: 'x.json' } };
      }),
      'seccompProfile RuntimeDefault',
    ],
    ...(['hostNetwork', 'hostPID', 'hostIPC'] as const).map((field): [string, Pod, string] => [
      field,
      but((_, spec) => {
        spec[field] = true;
      }),
      'must not share a namespace of its node',
    ]),
    [
      'a hostPath volume',
      but((_, spec) => spec.volumes.push({ name: 'host', hostPath: { path: '/' } })),
      'no hostPath volume',
    ],
    [
      'a claim on a device',
      but((_, spec) => {
        spec.resourceClaims = [{ name: 'gpu', resourceClaimName: 'gpu' }];
      }),
      'claim no device',
    ],
    [
      'a privileged container',
      but((_, spec) => {
        spec.containers[0].securityContext = { privileged: true };
      }),
      'no privileged container',
    ],
    [
      'a pod that names its node',
      but((_, spec) => {
        spec.nodeName = 'n1';
      }),
      'must not name a node',
    ],
    ...[
      'dev.gvisor.flag.network',
      'dev.gvisor.spec.mount.x.source',
      'cdi.k8s.io/gpu',
      'k8s.v1.cni.cncf.io/networks',
      'io.kubernetes.cri-o.Devices',
      'devices.nri.io/container.assistant',
      'cni.projectcalico.org/ipAddrs',
      'kubernetes.io/egress-bandwidth',
    ].map((key): [string, Pod, string] => [
      `the annotation ${key}`,
      but((pod) => {
        pod.metadata.annotations = { [key]: 'x' };
      }),
      'only annotations that neither its runtime nor its network plugin reads',
    ]),
  ])('%s', async (_, pod, reason) => expect(await verdict(pod)).toContain(reason));

  it('every user’s pods alike: the policies exempt nobody', async () => {
    const policies = (await policiesOf('home'))
      .map(({ object }) => object)
      .filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
    expect(policies).toHaveLength(4);
    for (const { spec } of policies)
      expect(spec).toMatchObject({ failurePolicy: 'Fail', matchConstraints: expect.anything() });
    for (const { spec } of policies) expect(spec).not.toHaveProperty('matchConditions');
  });
});

describe('a pod that was let in', () => {
  beforeAll(async () => {
    await post(pods(CAPSULE), madeByOperator());
    // A pod from before there was a policy, which has no attester.
    await post(
      pods(OLDER),
      but((pod, spec) => {
        delete spec.initContainers;
        Object.assign(pod.metadata, { annotations: { 'example.org/older': 'x' } });
      }),
    );
    for (const namespace of ['home-services', FOREIGN]) await post(pods(namespace), madeByOperator());
    await patch(`/api/v1/namespaces/${OLDER}`, { metadata: { labels: ofCapsule('home') } });
  });
  const attesterImage = { spec: { initContainers: [{ name: 'attest', image: 'registry.test/x:1' }] } };
  const ephemeral = { spec: { ephemeralContainers: [{ name: 'e', image: 'registry.test/x:1' }] } };
  const flag = { metadata: { annotations: { 'dev.gvisor.flag.debug': 'true' } } };
  const empty = { metadata: { annotations: { 'dev.gvisor.flag.debug': '' } } };

  it.each([
    ['its attester replaced', CAPSULE, attesterImage, 'attester of a pod cannot be replaced', ''],
    ['an ephemeral container', CAPSULE, ephemeral, 'no ephemeral containers', '/ephemeralcontainers'],
    ['one either when it is older than the policy', OLDER, ephemeral, 'no ephemeral', '/ephemeralcontainers'],
    [
      'an annotation that speaks to its runtime',
      CAPSULE,
      flag,
      'only annotations that neither its runtime nor its network plugin reads',
      '',
    ],
    ['one that says nothing to it', CAPSULE, empty, 'only annotations that neither its runtime', ''],
    ...[
      'dev.gvisor.flag.network',
      'io.katacontainers.config.hypervisor.path',
      'io.containerd.cri.runtime-handler',
      'io.kubernetes.cri-o.Devices',
      'run.oci.handler',
      'org.systemd.property.CPUQuota',
      'org.criu.config',
      'cdi.k8s.io/gpu',
      'devices.nri.io/container.assistant',
      'ulimits.nri.containerd.io/container.assistant',
      'seccomp-profile.crio.io/assistant',
      'k8s.v1.cni.cncf.io/networks',
      'v1.multus-cni.io/default-network',
      'cni.projectcalico.org/ipAddrs',
      'cni.projectcalico.org/floatingIPs',
      'cni.projectcalico.org/hwAddr',
      'kubernetes.io/egress-bandwidth',
      'kubernetes.io/ingress-bandwidth',
    ].map((key): [string, string, object, string, string] => [
      `the annotation ${key} with its status`,
      CAPSULE,
      { metadata: { annotations: { [key]: 'x' } } },
      'only annotations that neither its runtime nor its network plugin reads',
      '/status',
    ]),
  ])('never gets %s', async (_, namespace, change, reason, subresource) => {
    expect(await said(() => patch(`${pods(namespace, 'ledger')}${subresource}`, change))).toContain(reason);
  });

  const wouldBe = (namespace: string, change: object, subresource = '') =>
    said(() =>
      server.client.call({
        method: 'PATCH',
        path: `${pods(namespace, 'ledger')}${subresource}`,
        body: change,
        query: { dryRun: 'All' },
        contentType: 'application/strategic-merge-patch+json',
      }),
    );

  it('accepts annotations that only the operator reads, and keeps those that it has', async () => {
    const annotated = (key: string) => ({ metadata: { annotations: { [key]: 'x' } } });
    expect(await wouldBe(CAPSULE, annotated('platform.space/new'))).toBe('');
    expect(await wouldBe(CAPSULE, annotated('kubernetes.io/limit-ranger'))).toBe('');
    expect(await wouldBe(OLDER, { metadata: { labels: { seen: 'again' } } })).toBe('');
  });

  it('takes from its network what is known of it since it has one, and its status from its node', async () => {
    for (const key of [
      'cni.projectcalico.org/podIP',
      'cni.projectcalico.org/podIPs',
      'cni.projectcalico.org/containerID',
      'k8s.v1.cni.cncf.io/network-status',
      'k8s.ovn.org/pod-networks',
      'ovn.kubernetes.io/ip_address',
    ])
      expect([key, await wouldBe(CAPSULE, { metadata: { annotations: { [key]: 'x' } } }, '/status')]).toEqual(
        [key, ''],
      );
    const status = { conditions: [{ type: 'Ready', status: 'True' }], podIP: '192.0.2.1' };
    expect(await wouldBe(CAPSULE, { status }, '/status')).toBe('');
  });

  const bound = (namespace: string, metadata: object) =>
    ['pods/ledger/binding', 'bindings'].map((path) =>
      said(() =>
        server.client.call({
          method: 'POST',
          path: `/api/v1/namespaces/${namespace}/${path}`,
          body: { metadata: { name: 'ledger', ...metadata }, target: { kind: 'Node', name: 'n1' } },
          query: { dryRun: 'All' },
        }),
      ),
    );

  it('is bound to a node by any scheduler', async () => {
    const metadata = [
      {},
      // Some schedulers send the pod's own annotations; the API server itself adds the node's location.
      { annotations: madeByOperator().metadata.annotations },
      { annotations: { 'example.org/named': 'x' }, labels: { 'topology.kubernetes.io/zone': 'z' } },
    ];
    for (const one of metadata) expect(await Promise.all(bound(CAPSULE, one))).toEqual(['', '']);
  });

  it.each([
    [
      'annotation',
      { annotations: { 'dev.gvisor.flag.network': 'host' } },
      'only annotations that neither its runtime',
    ],
    ['label of ours', { labels: { 'platform.space/assistant': 'other' } }, 'must not change the labels'],
    ['label of what made it', { labels: { 'pod-template-hash': 'other' } }, 'must not change the labels'],
  ])('gets no %s by its binding', async (_, metadata, reason) => {
    for (const text of await Promise.all(bound(CAPSULE, metadata))) expect(text).toContain(reason);
    // Pods of the Space's own programs get no such label either; their annotations are not restricted.
    for (const text of await Promise.all(bound('home-services', metadata)))
      expect(text).toEqual('labels' in metadata ? expect.stringContaining(reason) : '');
    expect(await Promise.all(bound(FOREIGN, metadata))).toEqual(['', '']);
  });

  it.each(['home-services', FOREIGN])(
    'in another place is looked into as its own rules say (%s)',
    async (at) => {
      expect(await wouldBe(at, ephemeral, '/ephemeralcontainers')).toBe('');
    },
  );

  it.each([CAPSULE, OLDER])('can be looked after (%s)', async (namespace) => {
    const changes = {
      metadata: { labels: { looked: 'after' }, annotations: { 'platform.space/granted': 'x' } },
      spec: { containers: [{ name: 'assistant', image: 'registry.test/ledger:2' }] },
    };
    expect(await said(() => patch(pods(namespace, 'ledger'), changes))).toBe('');
  });
});

describe('the class', () => {
  const path = `${CLASSES}/gvisor`;
  const remove = () => server.client.call({ method: 'DELETE', path, body: {} });
  const becomes = (what: string, wanted: (said: string) => boolean) =>
    eventually(async () => wanted(await verdict(madeByOperator())), { what });

  it('that is gone lets nothing in, and what runs can be looked after', async () => {
    await remove();
    await becomes('a pod is refused without the class', (text) => text !== '');
    // Kubernetes itself refuses that pod, but not one that names no class.
    const bare = but((_, spec) => delete spec.runtimeClassName);
    await eventually(async () => (await verdict(bare)).includes('no params found'), {
      what: 'one that names no class is refused for the class that is gone',
    });
    const label = { metadata: { labels: { looked: 'twice' } } };
    expect(await said(() => patch(pods(CAPSULE, 'ledger'), label))).toBe('');
  });

  it('that comes back with the handler runc lets nothing in', async () => {
    await post(CLASSES, runtimeClass('gvisor', 'runc'));
    await becomes('a pod is refused for the handler', (text) =>
      text.includes('names handler "runc", not "runsc"'),
    );
  });

  it('that comes back as it was lets in again', async () => {
    await remove();
    await post(CLASSES, runtimeClass('gvisor', 'runsc'));
    await becomes('a pod is let in again', (text) => text === '');
  });
});

it('a canary that is gone lets nothing in', async () => {
  const path = '/api/v1/namespaces/home-services/services/canary';
  await server.client.call({ method: 'DELETE', path });
  await eventually(async () => (await verdict(madeByOperator())) !== '', { what: 'a pod is refused' });
});
