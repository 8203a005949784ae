import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { limitsIn, readConfig } from '../../brokers/egress/config.ts';
import { fixedMap } from '../../brokers/kit/net/fixed.ts';
import { readConfig as readObjectStoreConfig } from '../../brokers/objectstore/config.ts';
import { readConfig as readConsoleConfig } from '../../console/config.ts';
import { readGrace } from '../../operator/grace.ts';
import { materialsOf } from '../../operator/keys/materials.ts';
import { keysOptions } from '../../operator/keys/options.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, IMAGE_VALUES, SOME_BACKUP, SOME_IMAGES, someImage } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';
import { rightsPage } from './rights-page.ts';
import { EVERYTHING } from './testing/rights.ts';

let directory: string;
let helm: string;
let objects: readonly KubeObject[];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-chart-'));
  helm = await findTool('helm', directory);
  objects = await render();
}, 600_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

const template = (release: string, ...args: readonly string[]) =>
  finish(helm, ['template', release, CHART, '--namespace', 'home', ...SOME_IMAGES, ...args]);

async function render(...args: readonly string[]): Promise<readonly KubeObject[]> {
  const { code, stdout, stderr } = await template('home', ...args);
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
}

const ofKind = (...kinds: readonly string[]) => objects.filter(({ kind }) => kinds.includes(kind));
const named = (kind: string, name: string, namespace?: string) =>
  objects.find(
    ({ kind: k, metadata }) =>
      k === kind && metadata.name === name && (namespace === undefined || metadata.namespace === namespace),
  );

describe('the chart', () => {
  it('lets pods query DNS only at the pods, addresses and ports that you set', async () => {
    const set = ['ports={53,5353}', 'cidrs={169.254.20.10/32}'].flatMap((it) => [
      '--set',
      `network.dns.${it}`,
    ]);
    const made = await render(...set);
    const asks = made
      .filter(({ kind }) => kind === 'NetworkPolicy')
      .flatMap(({ spec }) => spec?.egress ?? [])
      .filter(({ to }) => JSON.stringify(to ?? []).includes('kube-dns'));
    expect(asks.length).toBeGreaterThan(3);
    for (const { to, ports } of asks) {
      expect(to.slice(1)).toEqual([{ ipBlock: { cidr: '169.254.20.10/32' } }]);
      expect(ports).toEqual(
        [53, 5353].flatMap((port) => ['UDP', 'TCP'].map((protocol) => ({ port, protocol }))),
      );
    }
  });

  it('gives the operator the content of each of its admission policies and bindings', () => {
    const kinds = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'];
    const specs = kinds.map((kind) => [
      kind,
      Object.fromEntries(ofKind(kind).map(({ metadata, spec }) => [metadata.name, spec])),
    ]);
    const written = named('ConfigMap', 'home-policies', 'home-system')?.['data'].specs;
    expect(JSON.parse(written)).toEqual(Object.fromEntries(specs));
  });

  it('passes its linter, warnings included', async () => {
    const { code, stdout, stderr } = await finish(helm, ['lint', '--strict', CHART, ...SOME_IMAGES]);
    expect({ code, said: code === 0 ? '' : stdout + stderr }).toEqual({ code: 0, said: '' });
  });

  it('creates a RuntimeClass with the scheduling and overhead that you set', async () => {
    const set = ['createRuntimeClass=true', 'scheduling.nodeSelector.sandbox=gvisor', 'overhead.memory=32Mi'];
    const toleration = ['key=sandbox', 'operator=Exists'].map(
      (field) => `scheduling.tolerations[0].${field}`,
    );
    const made = await render(...[...set, ...toleration].flatMap((value) => ['--set', `sandbox.${value}`]));
    expect(made.find(({ kind }) => kind === 'RuntimeClass')).toMatchObject({
      handler: 'runsc',
      overhead: { podFixed: { memory: '32Mi' } },
      scheduling: {
        nodeSelector: { sandbox: 'gvisor' },
        tolerations: [{ key: 'sandbox', operator: 'Exists' }],
      },
    });
  });

  it('runs every pod under Pod Security restricted, on a root that cannot be written, with bounds', () => {
    const workloads = ofKind('Deployment', 'StatefulSet', 'Job', 'CronJob');
    const names = workloads.map(({ metadata }) => metadata.name.replace(/-[0-9a-f]{8}$/, '-HASH'));
    expect(names.sort()).toEqual([
      'canary',
      'db-broker',
      'home-console',
      'home-keys',
      'home-keys-HASH',
      'home-operator',
      'home-test',
      'home-uninstall-guard',
      'objectstore-broker',
      'platform-assistant-egress',
      'postgres',
      's3',
    ]);
    for (const { spec } of workloads) {
      const pod = (spec.jobTemplate?.spec ?? spec).template.spec;
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      expect(pod.hostNetwork ?? pod.hostPID ?? pod.hostIPC).toBeUndefined();
      for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.resources.limits.memory).toBeTypeOf('string');
        expect(container.resources.requests.cpu).toBeTypeOf('string');
      }
    }
    for (const namespace of ['home-system', 'home-services'])
      expect(named('Namespace', namespace)?.metadata.labels).toMatchObject({
        'pod-security.kubernetes.io/enforce': 'restricted',
      });
  });

  it('gives a service account token to nobody but operator, console, keys, its test and the guard of its uninstallation', () => {
    const withToken = ofKind('Deployment', 'StatefulSet', 'Job', 'CronJob').filter(
      ({ spec }) => (spec.jobTemplate?.spec ?? spec).template.spec.automountServiceAccountToken !== false,
    );
    const names = withToken.map(({ metadata }) => metadata.name.replace(/-[0-9a-f]{8}$/, '-HASH'));
    expect(new Set(names)).toEqual(
      new Set([
        'home-operator',
        'home-console',
        'home-keys',
        'home-keys-HASH',
        'home-test',
        'home-uninstall-guard',
      ]),
    );
  });

  it('gives only the program of keys and the test a role in the services namespace, and no role over every Secret or with a wildcard', () => {
    const inServices = ofKind('Role', 'RoleBinding').filter(
      ({ metadata }) => metadata.namespace === 'home-services',
    );
    expect(new Set(inServices.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))).toEqual(
      new Set(['home-services/home-keys', 'home-services/home-test']),
    );
    for (const { metadata, rules } of inServices.filter(({ kind }) => kind === 'Role'))
      for (const rule of rules)
        if (metadata.name === 'home-test') expect(rule.verbs).toEqual(['list']);
        else expect(rule.resourceNames.length).toBeGreaterThan(0);
    const bound = new Set(ofKind('ClusterRoleBinding').map(({ roleRef }) => roleRef.name));
    expect([...bound].toSorted()).toEqual(['home-console', 'home-operator', 'home-test']);
    for (const { kind, metadata, rules } of ofKind('ClusterRole', 'Role')) {
      for (const rule of rules ?? []) {
        expect([...rule.apiGroups, ...rule.resources, ...rule.verbs]).not.toContain('*');
        if (!rule.resources.includes('secrets')) continue;
        if (kind === 'ClusterRole') expect(bound).not.toContain(metadata.name);
        expect(rule.verbs).not.toEqual(expect.arrayContaining(['list']));
        expect(rule.verbs).not.toEqual(expect.arrayContaining(['watch']));
      }
    }
    const clusterRole = named('ClusterRole', 'home-operator');
    for (const { resources } of clusterRole?.['rules'] ?? []) expect(resources).not.toContain('secrets');
  });

  it('lets the console read no Secret but those that the operator names, and leaves these names to the operator', async () => {
    const bound = ofKind('RoleBinding', 'ClusterRoleBinding').filter(({ subjects }) =>
      subjects.some(({ name }: { name: string }) => name === 'home-console'),
    );
    const roles = bound.map(({ roleRef }) => named(roleRef.kind, roleRef.name));
    const rules = roles.flatMap((role) => (role?.['rules'] ?? []) as { resources: string[] }[]);
    expect(rules.flatMap(({ resources }) => resources)).toEqual(['tokenreviews']);
    expect(named('Role', 'home-console-principals', 'home-system')).not.toHaveProperty('rules');
    const variables = named('Deployment', 'home-operator')?.['spec'].template.spec.containers[0].env;
    expect(variables).toContainEqual({ name: 'CONSOLE_ROLE', value: 'home-console-principals' });
    for (const off of ['console.enabled=false', 'objectStore.enabled=false'])
      expect(JSON.stringify(await render('--set', off))).not.toMatch(
        /CONSOLE_ROLE|"kind":"Role","metadata":{"name":"home-console/,
      );
  });

  it('spreads replicas of one part over nodes, and evicts one at a time', async () => {
    const parts = {
      operator: 'home-operator',
      dbBroker: 'db-broker',
      objectStore: 'objectstore-broker',
      egress: 'platform-assistant-egress',
      console: 'home-console',
    };
    const set = Object.keys(parts).flatMap((part) => ['--set', `${part}.replicas=3`]);
    const rendered = await render(...set);
    for (const name of Object.values(parts)) {
      const find = (kind: string) => rendered.find((one) => one.kind === kind && one.metadata.name === name);
      const [deployment, budget] = [find('Deployment'), find('PodDisruptionBudget')];
      const labels = deployment?.['spec'].selector;
      // A drain would otherwise wait for replicas that are not ready, perhaps for what runs on the node that is drained.
      expect(budget?.['spec']).toEqual({
        maxUnavailable: 1,
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
        selector: labels,
      });
      expect(budget?.metadata.namespace).toBe(deployment?.metadata.namespace);
      expect(deployment?.['spec'].template.spec.topologySpreadConstraints).toEqual([
        expect.objectContaining({ topologyKey: 'kubernetes.io/hostname', labelSelector: labels }),
      ]);
    }
    // By default, the release has two replicas of each.
    expect(
      ofKind('PodDisruptionBudget')
        .map(({ metadata }) => metadata.name)
        .toSorted(),
    ).toEqual(Object.values(parts).toSorted());
    // With a single replica it would block every drain of its node.
    const single = await render(...Object.keys(parts).flatMap((part) => ['--set', `${part}.replicas=1`]));
    expect(single.filter(({ kind }) => kind === 'PodDisruptionBudget')).toEqual([]);
  });

  it('gives the rights that docs/rights.md lists', async () => {
    const all = await render(...EVERYTHING);
    await expect(rightsPage(all)).toMatchFileSnapshot('../../docs/rights.md');
  });

  it('gives administrators the rights that its pages need, and none in the whole cluster by default', async () => {
    const person = { kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'mia' };
    const named = ['--set-json', `people.administrators=${JSON.stringify([person])}`];
    const bound = async (...more: string[]) =>
      (await render(...named, ...more))
        .filter(({ kind, subjects = [] }) => kind.endsWith('Binding') && subjects[0]?.name === 'mia')
        .map(({ roleRef, metadata, subjects }) => {
          expect(subjects).toEqual([person]);
          return `${roleRef.name} in ${metadata.namespace ?? 'the cluster'}`;
        })
        .toSorted();
    const own = [
      'home-space-admin in home',
      'home-space-inputs in home',
      'home-space-runtime in home-services',
      'home-space-runtime in home-system',
    ];
    expect(await bound()).toEqual(own);
    expect(await bound('--set', 'people.wholeCluster=true')).toEqual(
      [...own, 'home-space-cluster in the cluster', 'home-space-runtime in the cluster'].toSorted(),
    );
    // If no subject is named, nobody is bound.
    const nobody = await render('--set', 'people.wholeCluster=true');
    expect(nobody.filter(({ metadata }) => metadata.name.startsWith('home-administrators'))).toEqual([]);
  });

  it('has only three roles in the namespace of the release, with everything enabled', async () => {
    const on = [
      'objectStore.dataPlane.byok',
      'monitoring.podMonitor',
      'monitoring.rules',
      'monitoring.dashboard',
    ];
    const set = [...on.map((value) => `${value}=true`), 'operator.replicas=2'];
    const cluster = /^(Namespace|FlowSchema|Cluster.*|ValidatingAdmissionPolicy.*|CustomResourceDefinition)$/;
    const placed = (await render(...SOME_BACKUP, ...set.flatMap((value) => ['--set', value])))
      .filter(({ kind, metadata }) => !cluster.test(kind) && (metadata.namespace ?? 'home') === 'home')
      .map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(placed.sort()).toEqual([
      'Role home-backup',
      'Role home-operator',
      'Role home-test',
      'Role home-uninstall-guard',
      'RoleBinding home-backup',
      'RoleBinding home-operator',
      'RoleBinding home-test',
      'RoleBinding home-uninstall-guard',
    ]);
  });

  it('denies everything in the services namespace except what it names', () => {
    const policies = ofKind('NetworkPolicy').filter(({ metadata }) => metadata.namespace === 'home-services');
    const denied = policies.find(({ metadata }) => metadata.name === 'default-deny');
    expect(denied?.['spec']).toEqual({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] });
    const broker = policies.find(({ metadata }) => metadata.name === 'db-broker');
    expect(broker?.['spec'].ingress).toEqual([
      {
        from: [
          {
            namespaceSelector: {
              matchExpressions: [
                {
                  key: 'kubernetes.io/metadata.name',
                  operator: 'In',
                  values: ['home-system', 'home-services'],
                },
              ],
            },
            podSelector: {
              matchLabels: { 'platform.space/space': 'home' },
              matchExpressions: [{ key: 'platform.space/component', operator: 'Exists' }],
            },
          },
        ],
        ports: [{ port: 8080 }],
      },
    ]);
    const reachable = policies.filter(({ spec }) => spec.ingress !== undefined);
    expect(reachable.map(({ metadata }) => metadata.name)).toEqual([
      'canary',
      'egress',
      'db-broker',
      'postgres',
      'objectstore-broker',
      's3',
      'postgres-objectstore',
    ]);
  });

  it('lets Assistants reach the objects, programs of the Space the control listener, and only the broker the store', () => {
    const policy = (name: string) => named('NetworkPolicy', name, 'home-services')?.['spec'];
    const [control, data] = policy('objectstore-broker').ingress;
    expect(control.ports).toEqual([{ port: 8080 }]);
    expect(control.from).toEqual(policy('db-broker').ingress[0].from);
    expect(data.ports).toEqual([{ port: 8081 }]);
    expect(data.from[0].podSelector.matchExpressions).toEqual([
      { key: 'platform.space/assistant', operator: 'Exists' },
    ]);
    expect(policy('objectstore-broker').ingress).toHaveLength(2);
    const [only, ...others] = policy('s3').ingress;
    expect(only.from[0].podSelector.matchLabels['platform.space/component']).toBe('objectstore-broker');
    expect([others, policy('s3').egress]).toEqual([[], undefined]);
    const holders = ofKind('Deployment', 'StatefulSet').filter(({ spec }) =>
      JSON.stringify(spec).includes('"s3-root"'),
    );
    expect(holders.map(({ metadata }) => metadata.name).sort()).toEqual(['objectstore-broker', 's3']);
  });

  it('gives a probe of the network the policies of an Assistant, and a canary that only these close to it', () => {
    const policy = (name: string, place: string) => named('NetworkPolicy', name, place)?.['spec'];
    const walls = policy('home-network-probe', 'home-system');
    expect(walls.ingress).toBeUndefined();
    expect(
      walls.egress.map(({ to, ports }: { to: [{ podSelector: { matchLabels: object } }]; ports: object }) => [
        Object.values(to[0].podSelector.matchLabels)[1],
        ports,
      ]),
    ).toEqual([
      ['postgres', [{ port: 5432 }]],
      [
        'canary',
        [{ port: 7001 }, { port: 7003 }, { port: 7011, protocol: 'UDP' }, { port: 7013, protocol: 'UDP' }],
      ],
    ]);
    const canary = policy('canary', 'home-services');
    expect(canary.egress).toBeUndefined();
    expect(canary.ingress).toEqual([
      { ports: [{ port: 7002 }, { port: 7012, protocol: 'UDP' }] },
      { from: [expect.anything()], ports: [{ port: 7001 }, { port: 7011, protocol: 'UDP' }] },
    ]);
    expect(canary.ingress[1].from[0].podSelector.matchLabels).toEqual(walls.podSelector.matchLabels);
    const postgres = policy('postgres', 'home-services').ingress[0].from;
    expect(postgres.at(-1)).toEqual(canary.ingress[1].from[0]);
  });

  it('renders nothing of the object store if it is disabled', async () => {
    const rendered = await render('--set', 'objectStore.enabled=false');
    const text = JSON.stringify(rendered.filter(({ kind }) => kind !== 'CustomResourceDefinition'));
    expect(text).not.toMatch(/"(objectstore[a-z-]*|s3|s3-root)"|OBJECT_STORE_BROKER_URL/);
  });

  describe('with an S3 server of one’s own', () => {
    const AT = 'objectStore.external';
    const whole = [
      `${AT}.endpoint=https://s3.example.org:9000`,
      `${AT}.bucket=home-files`,
      `${AT}.region=eu-central-1`,
      `${AT}.addressing=virtual-host`,
      `${AT}.cidrs={203.0.113.0/28}`,
      `${AT}.ca=PEM`,
      'existingSecrets.s3Root=s3-of-ours',
    ];
    const set = (values: readonly string[]) => values.flatMap((value) => ['--set', value]);

    it('runs none itself, creates no key or certificate for it, and lets only the broker reach it', async () => {
      const rendered = await render(...set(whole), '--set', 's3.image=');
      const text = JSON.stringify(rendered.filter(({ kind }) => kind !== 'CustomResourceDefinition'));
      expect(text).not.toMatch(/s3-root|s3-tls|component":"s3"/);
      expect(rendered.filter(({ metadata }) => metadata.name === 's3')).toEqual([]);
      const broker = rendered.find(
        ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'objectstore-broker',
      )?.['spec'].template.spec;
      const { env } = broker.containers[0];
      const environment = Object.fromEntries(
        env.map(({ name, value }: { name: string; value: string }) => [name, value]),
      );
      expect(readObjectStoreConfig(environment)).toMatchObject({
        S3_ENDPOINT: 'https://s3.example.org:9000',
        S3_BUCKET: 'home-files',
        S3_REGION: 'eu-central-1',
        S3_ADDRESSING: 'virtual-host',
        S3_CREATE_BUCKET: false,
        S3_CA_FILE: '/etc/space/s3-ca/ca.pem',
      });
      expect(broker.volumes).toContainEqual({
        name: 's3',
        secret: { secretName: 's3-of-ours', defaultMode: 288 },
      });
      const policies = rendered.filter(({ kind }) => kind === 'NetworkPolicy');
      const to = { to: [{ ipBlock: { cidr: '203.0.113.0/28' } }], ports: [{ protocol: 'TCP', port: 9000 }] };
      const allowed = policies.filter(({ spec }) => JSON.stringify(spec).includes('203.0.113.0/28'));
      expect(allowed.map(({ metadata }) => metadata.name)).toEqual(['objectstore-broker']);
      expect(allowed[0]?.['spec'].egress).toContainEqual(to);
    });

    it('finds it in the cluster by its pods', async () => {
      const pods = ['cidrs=null', 'pods.namespace=minio', 'pods.labels.app=minio', 'pods.port=9000'];
      const rendered = await render(...set([...whole, ...pods.map((value) => `${AT}.${value}`)]));
      const policy = rendered.find(
        ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'objectstore-broker',
      );
      expect(policy?.['spec'].egress).toContainEqual({
        to: [
          {
            namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'minio' } },
            podSelector: { matchLabels: { app: 'minio' } },
          },
        ],
        ports: [{ protocol: 'TCP', port: 9000 }],
      });
    });

    it.each([
      ['without its keys', 'existingSecrets.s3Root=', /existingSecrets\.s3Root/],
      ['in plain text', `${AT}.endpoint=http://s3.example.org`, /plain text.*use https/],
      ['that no policy lets the broker to', `${AT}.cidrs=null`, /objectStore\.external\.cidrs/],
      ['by every pod there is', `${AT}.pods.namespace=minio`, /objectStore\.external\.pods\.labels/],
      ['with a path', `${AT}.endpoint=https://s3.example.org/files`, /endpoint/],
      ['with a bucket that has no such name', `${AT}.bucket=Home`, /bucket/],
    ])('refuses one %s', async (_, change, reason) => {
      const { code, stderr } = await template('home', ...set([...whole, change]));
      expect(code).not.toBe(0);
      expect(stderr).toMatch(reason);
    });
  });

  it('gives the gateway each Assistant’s share: its default, or what you set', async () => {
    const environmentOf = (all: readonly KubeObject[]): Record<string, string> => {
      const gateway = all.find(
        ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'platform-assistant-egress',
      );
      const variables: { name: string; value?: string }[] = gateway?.['spec'].template.spec.containers[0].env;
      return Object.fromEntries(variables.map(({ name, value = '' }) => [name, value]));
    };
    const environment = environmentOf(objects);
    const configured = Object.keys(environment).filter((name) =>
      /^(?:CALLER|CAPSULE|ALL)_|_SECONDS$/.test(name),
    );
    expect(configured).toHaveLength(6 + 2 * 4 + 1 + 5);
    expect(limitsIn(readConfig(environment))).toEqual(
      limitsIn(readConfig({ SPACE_NAME: environment['SPACE_NAME'] })),
    );
    const flags = ['--set', 'egress.limits.tunnels=7,egress.limits.bodyBytes=1073741824'];
    expect(environmentOf(await render(...flags))).toMatchObject({
      CALLER_TUNNELS: '7',
      CALLER_BODY_BYTES: '1073741824',
    });
    expect((await template('home', '--set', 'egress.limits.tunnels=0')).stderr).toContain(
      '/egress/limits/tunnels',
    );
    expect(environmentOf(await render('--set', 'egress.patience.answer=1200'))).toMatchObject({
      ANSWER_SECONDS: '1200',
    });
    // A Capsule with more than half would leave the others less than they need; the program refuses it, too.
    const greedy = await template('home', '--set', 'egress.limits.capsule.tunnels=1025');
    expect(greedy.stderr).toContain('egress.limits.capsule.tunnels is more than half');
    expect(() => readConfig({ ...environment, CAPSULE_TUNNELS: '1025' })).toThrow('CAPSULE_TUNNELS');
    expect(() => readConfig({ ...environment, CALLER_CONNECTIONS: '4097' })).toThrow('CALLER_CONNECTIONS');
  });

  it('checks the gateway’s readiness often, since it waits for the operator, and longer than a refusal is delayed', () => {
    const gateway = objects.find(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'platform-assistant-egress',
    );
    const { readinessProbe, startupProbe, livenessProbe } =
      gateway?.['spec'].template.spec.containers[0] ?? {};
    expect(readinessProbe.exec.command).toEqual(['node', '/app/health.mjs']);
    expect(readinessProbe.periodSeconds).toBeLessThanOrEqual(10);
    expect(readinessProbe.timeoutSeconds).toBeGreaterThanOrEqual(15);
    // The operator connects to it once it has started, and a missing operator must not restart it.
    for (const probe of [startupProbe, livenessProbe]) expect(probe.httpGet.path).toBe('/healthz');
  });

  it('gives each service memory for the connections that its listener may hold', () => {
    // At rest, and with TLS and half of a request in each: what was measured of the brokers, the gateway and the console.
    const [restMib, connectionMib] = [90, 0.1];
    const listeners = ofKind('Deployment').flatMap(({ metadata, spec }) => {
      const { env = [], resources } = spec.template.spec.containers[0];
      const held = env.find(({ name }: { name: string }) => name === 'CONNECTIONS')?.value;
      return held === undefined
        ? []
        : [{ name: metadata.name, held: Number(held), memory: resources.limits.memory }];
    });
    expect(listeners.map(({ name }) => name).sort()).toEqual([
      'db-broker',
      'home-console',
      'objectstore-broker',
      'platform-assistant-egress',
    ]);
    for (const { name, held, memory } of listeners)
      expect(Number.parseInt(memory, 10), name).toBeGreaterThan(restMib + held * connectionMib);
  });

  it('refuses a default quota that is larger than the disk of all Capsules, and names both', async () => {
    const environment = (all: readonly KubeObject[]) => {
      const broker = all.find(
        ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'objectstore-broker',
      );
      return broker?.['spec'].template.spec.containers[0].env;
    };
    expect(environment(objects)).toContainEqual({ name: 'DEFAULT_QUOTA_BYTES', value: String(1024 ** 3) });
    expect(environment(objects)).toContainEqual({ name: 'QUOTA_ENTRY_BYTES', value: '16384' });
    const { code, stderr } = await template('home', '--set', 'objectStore.defaultQuotaBytes=5368709121');
    expect(code).not.toBe(0);
    expect(stderr).toContain(
      'objectStore.defaultQuotaBytes is 5368709121, which is more than the disk that all Capsules share (s3.storage.size: 5Gi)',
    );
    // The broker would refuse to start with a number that is not exact.
    const inexact = await template('home', '--set', `objectStore.defaultQuotaBytes=${2 ** 53}`);
    expect(inexact.stderr).toContain("at '/objectStore/defaultQuotaBytes': maximum");
    const flags = ['--set', 's3.storage.size=1.5Ti,objectStore.defaultQuotaBytes=1649267441664'];
    expect(environment(await render(...flags))).toContainEqual({
      name: 'DEFAULT_QUOTA_BYTES',
      value: '1649267441664',
    });
  });

  it('refuses a default database quota that is larger than the volume of all Capsules, and names both', async () => {
    const larger = ['--set', 'dbBroker.defaultQuotaBytes=8589934593'];
    const { code, stderr } = await template('home', ...larger, '--set', 'postgres.storage.size=8Gi');
    expect(code).not.toBe(0);
    expect(stderr).toContain(
      'dbBroker.defaultQuotaBytes is 8589934593, which is more than the disk that all Capsules share (postgres.storage.size: 8Gi)',
    );
    const rendered = await render('--set', 'dbBroker.defaultQuotaBytes=8589934592,postgres.storage.size=8Gi');
    const broker = rendered.find(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'db-broker',
    );
    expect(broker?.['spec'].template.spec.containers[0].env).toContainEqual({
      name: 'DEFAULT_QUOTA_BYTES',
      value: '8589934592',
    });
  });

  it('lets the gateway reach fixed hosts at their ports, but not the API server if its address is set', async () => {
    const all = await render(
      '--set-json',
      'egress.hosts={"a.example.org":"10.1.2.3","b.example.org":"203.0.113.7:8443","c.example.org":"[2001:db8::7]:8444"}',
      '--set-json',
      'network.apiServerCIDRs=["198.51.100.4/32","2001:db8:1::/64"]',
      '--set-json',
      'egress.nat64Prefixes=["2001:db8:64::/96"]',
    );
    const of = (kind: string, name: string) =>
      all.find(
        (one) =>
          one.kind === kind && one.metadata.name === name && one.metadata.namespace === 'home-services',
      );
    const variables: { name: string; value: string }[] = of('Deployment', 'platform-assistant-egress')?.[
      'spec'
    ].template.spec.containers[0].env;
    const environment = Object.fromEntries(variables.map(({ name, value }) => [name, value]));
    expect(environment).toMatchObject({
      DENIED_CIDRS: '198.51.100.4/32,2001:db8:1::/64',
      NAT64_PREFIXES: '2001:db8:64::/96',
    });
    // The program accepts what the chart accepts.
    expect(readConfig(environment).FIXED_HOSTS).toHaveLength(3);
    const rules = of('NetworkPolicy', 'egress')?.['spec'].egress;
    for (const [cidr, port] of [
      ['10.1.2.3/32', 443],
      ['203.0.113.7/32', 8443],
      ['2001:db8::7/128', 8444],
    ])
      expect(rules).toContainEqual({ to: [{ ipBlock: { cidr } }], ports: [{ port }] });
    const world = rules[0].to.map(({ ipBlock }: { ipBlock: { except?: string[] } }) => ipBlock.except);
    expect([world[0].includes('198.51.100.4/32'), world[1].includes('2001:db8:1::/64')]).toEqual([
      true,
      true,
    ]);
    const wrong = await template('home', '--set-json', 'egress.hosts={"a.example.org":"1.2.3.4:"}');
    expect(wrong.stderr).toContain('/egress/hosts');
  });

  it('has the S3 server collect garbage before it reaches the limit of its memory', async () => {
    const limitOf = (all: readonly KubeObject[]) => {
      const s3 = all.find(({ kind, metadata }) => kind === 'StatefulSet' && metadata.name === 's3');
      const env: readonly { name: string; value?: string }[] = s3?.['spec'].template.spec.containers[0].env;
      return env.find(({ name }) => name === 'GOMEMLIMIT')?.value;
    };
    expect(limitOf(objects)).toBe(String(Math.floor((256 * 1024 ** 2 * 4) / 5)));
    expect(limitOf(await render('--set', 's3.resources.limits.memory=1Gi'))).toBe('858993459');
    expect(limitOf(await render('--set', 's3.resources.limits=null'))).toBeUndefined();
  });

  it('gives the gateway its time to drain, and the pod a longer grace period', async () => {
    const all = await render('--set', 'egress.drainSeconds=600');
    const gateway = all.find(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'platform-assistant-egress',
    );
    const pod = gateway?.['spec'].template.spec;
    expect(pod.terminationGracePeriodSeconds).toBe(630);
    expect(pod.containers[0].env).toContainEqual({ name: 'DRAIN_SECONDS', value: '600' });
  });

  it('lets each program with callers continue for a while when its pod is told to end', async () => {
    const deployments = (await render()).filter(({ kind }) => kind === 'Deployment');
    const leaving = deployments.filter(({ spec }) =>
      JSON.stringify(spec).includes('{"name":"LEAVE_SECONDS","value":"5"}'),
    );
    expect(leaving.map(({ metadata }) => metadata.name).sort()).toEqual([
      'db-broker',
      'home-console',
      'objectstore-broker',
      'platform-assistant-egress',
    ]);
  });

  it('has no command with two dollar signs, since Kubernetes turns them into one', async () => {
    const commands = (await render()).flatMap(({ spec }) => {
      const pod = spec?.template?.spec ?? spec?.jobTemplate?.spec.template.spec;
      return [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])].map(({ command, args }) =>
        JSON.stringify([command, args]),
      );
    });
    expect(commands.length).toBeGreaterThan(5);
    expect(commands.filter((one) => one.includes('$$'))).toEqual([]);
  });

  it('renders nothing of the console if it is disabled, and reads no Secret for it without an object store', async () => {
    const none = await render('--set', 'console.enabled=false', '--set-string', 'console.image=');
    expect(JSON.stringify(none)).not.toMatch(
      /home-console|console-(session|tls)|consoleSession|observer|egress-replicas/i,
    );
    const console = (await render('--set', 'objectStore.enabled=false')).filter(
      ({ metadata }) => metadata.name === 'home-console',
    );
    expect(console.flatMap(({ rules }) => rules ?? [])).toEqual([
      { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    ]);
    expect(JSON.stringify(console)).not.toMatch(/OBJECT_STORE|objectstore-broker/);
  });

  it('lets the console reach the API server, the object-storage broker and the gateway’s control listener, and only namespaces that you name reach it', async () => {
    const policy = (all: readonly KubeObject[]) =>
      all.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'home-console')?.[
        'spec'
      ];
    const { ingress, egress } = policy(objects);
    expect(ingress).toBeUndefined();
    const [broker, gateway, server, dns, ...others] = egress;
    expect(broker.to[0].podSelector.matchLabels['platform.space/component']).toBe('objectstore-broker');
    expect(broker.ports).toEqual([{ port: 8080 }]);
    expect(gateway.to[0].podSelector.matchLabels['platform.space/component']).toBe('egress');
    expect(gateway.ports).toEqual([{ port: 8080 }]);
    expect(server).toEqual(named('NetworkPolicy', 'home-operator', 'home-system')?.['spec'].egress[2]);
    expect(dns).toEqual(named('NetworkPolicy', 'home-operator', 'home-system')?.['spec'].egress[3]);
    expect(others).toEqual([]);
    const opened = await render('--set', 'console.from={ingress}');
    expect(policy(opened).ingress).toEqual([
      {
        from: [
          {
            namespaceSelector: {
              matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values: ['ingress'] }],
            },
          },
        ],
        ports: [{ port: 8443 }],
      },
    ]);
  });

  it('lets the console impersonate only if an issuer is set, and only those whom you name', async () => {
    expect(JSON.stringify(objects.filter(({ kind }) => kind !== 'CustomResourceDefinition'))).not.toContain(
      'impersonate',
    );
    const oidc = ['issuer=https://id.example.org:8443/home', 'clientId=space', 'groups={stewards}'];
    const set = (...more: readonly string[]) =>
      [...oidc, ...more].flatMap((value) => ['--set', `console.oidc.${value}`]);
    expect((await template('home', ...set())).stderr).toContain(
      'name the users whom the console may act as in console.oidc.users',
    );
    const groups = {
      ...{ apiGroups: [''], resources: ['groups'] },
      ...{ resourceNames: ['oidc:stewards'], verbs: ['impersonate'] },
    };
    const rulesOf = (all: readonly KubeObject[]) =>
      all.find(({ metadata }) => metadata.name === 'home-console-impersonate')?.['rules'];
    const rendered = await render(...set('users={mia}'));
    expect(rulesOf(rendered)).toEqual([
      { apiGroups: [''], resources: ['users'], resourceNames: ['oidc:mia'], verbs: ['impersonate'] },
      groups,
    ]);
    expect(rulesOf(await render(...set('users={*}')))).toEqual([
      { apiGroups: [''], resources: ['users'], verbs: ['impersonate'] },
      groups,
    ]);
    const policy = rendered.find(
      ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'home-console',
    );
    expect(policy?.['spec'].egress.at(-1).ports).toEqual([{ port: 8443 }]);
    for (const none of ['null', '[]']) {
      const unreachable = await template(
        'home',
        ...set('users={mia}'),
        '--set-json',
        `console.oidc.cidrs=${none}`,
      );
      expect(unreachable.stderr).toContain(
        'no NetworkPolicy permits connections to it: name its addresses in console.oidc.cidrs',
      );
    }
    for (const own of ['groups={system:masters}', 'users={system:admin}', 'prefix=system:'])
      expect((await template('home', '--set', `console.oidc.${own}`)).stderr).toMatch(/oidc/);
  });

  it('tells the console about every certificate: which Secret has it, and who renews it', async () => {
    const told = (all: readonly KubeObject[]) => {
      const { containers, volumes } =
        all.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'home-console')?.['spec']
          .template.spec ?? {};
      const variables: { name: string; value?: string }[] = containers[0].env;
      const { CERTIFICATES, CERTIFICATES_FILE } = readConsoleConfig(
        Object.fromEntries(variables.map(({ name, value = '' }) => [name, value])),
      );
      const isMounted = volumes.some(({ name }: { name: string }) => name === 'certificates');
      return { services: CERTIFICATES, isTold: CERTIFICATES_FILE !== undefined && isMounted };
    };
    const mine = (secret: string) => ({ secret, yours: false });
    expect(told(objects)).toEqual({
      isTold: true,
      services: {
        console: mine('home-system/console-tls'),
        'db-broker': mine('home-services/db-broker-tls'),
        'objectstore-broker': mine('home-services/objectstore-broker-tls'),
        'platform-assistant-egress': mine('home-services/platform-assistant-egress-tls'),
        postgres: mine('home-services/postgres-tls'),
        s3: mine('home-services/s3-tls'),
      },
    });
    const keys = ['console', 'dbBroker', 'egress', 'postgres', 'objectStoreBroker', 's3'];
    const own = keys.flatMap((key) => ['--set', `tls.existingSecrets.${key}=own-${key.toLowerCase()}`]);
    const { services, isTold } = told(await render('--set', 'tls.existingCA=own-ca', ...own));
    expect([isTold, Object.values(services).every(({ yours }) => yours)]).toEqual([false, true]);
    expect(services['postgres']).toEqual({ secret: 'home-services/own-postgres', yours: true });
  });

  it('has an Ingress and a route to the console if you name a host, which is then one of its addresses', async () => {
    expect(ofKind('Ingress', 'HTTPRoute')).toEqual([]);
    const originsOf = (all: readonly KubeObject[]): readonly string[] => {
      const console = all.find(
        ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'home-console',
      );
      const variables: { name: string; value?: string }[] = console?.['spec'].template.spec.containers[0].env;
      return readConsoleConfig(Object.fromEntries(variables.map(({ name, value = '' }) => [name, value])))
        .ORIGINS;
    };
    expect(originsOf(objects)).toEqual(['https://localhost:8443']);
    const rendered = await render(
      ...['--set', 'console.ingress.host=space.example.org'],
      ...['--set', 'console.route.host=home.example.org'],
      ...['--set', 'console.route.parentRefs[0].name=public'],
      ...['--set', 'console.origins={https://localhost:9443}'],
    );
    const found = rendered.filter(({ kind }) => kind === 'Ingress' || kind === 'HTTPRoute');
    expect(found.map(({ kind, metadata }) => [kind, metadata.namespace, metadata.name])).toEqual([
      ['Ingress', 'home-system', 'home-console'],
      ['HTTPRoute', 'home-system', 'home-console'],
    ]);
    expect(originsOf(rendered)).toEqual([
      'https://localhost:8443',
      'https://space.example.org',
      'https://home.example.org',
      'https://localhost:9443',
    ]);
  });

  it('renders no Secret with any values, and gives the program of keys the names of the missing ones', async () => {
    for (const flags of [[], ['--set', 'objectStore.dataPlane.byok=true'], ['--set', 'tls.enabled=false']]) {
      const rendered = await render(...flags);
      expect(rendered.filter(({ kind }) => kind === 'Secret')).toEqual([]);
      const [keys] = rendered.filter(({ kind }) => kind === 'CronJob');
      const [container] = keys?.['spec'].jobTemplate.spec.template.spec.containers ?? [];
      const options = keysOptions.parse(JSON.parse(container.env[0].value));
      const named = (namespace: string) => {
        const role = rendered.find(
          ({ kind, metadata }) =>
            kind === 'Role' && metadata.name === 'home-keys' && metadata.namespace === namespace,
        );
        const of = (resource: string) =>
          role?.['rules'].find(({ resources }: { resources: string[] }) => resources.includes(resource))
            ?.resourceNames ?? [];
        return of('secrets').toSorted();
      };
      const materials = materialsOf(options);
      const certificates = (at: string) =>
        Object.entries(options.certificates?.services ?? {}).flatMap(([service, { place }]) =>
          place === at ? [`${service}-tls`] : [],
        );
      expect(named('home-system')).toEqual(
        [
          ...materials.flatMap(({ name, places }) => (places.includes('system') ? [name] : [])),
          ...certificates('system'),
        ].toSorted(),
      );
      // The public half of the key that signs grants is there; the console's key for sealing is not.
      expect(named('home-services')).toEqual(
        [
          ...materials.flatMap(({ name }) => (name === 'console-session' ? [] : [name])),
          ...(options.certificates ? ['space-ca', ...certificates('services')] : []),
        ].toSorted(),
      );
    }
  });

  it('mounts the key that signs grants in the operator and the public ones in the broker, if grants are enabled', async () => {
    const rendered = await render('--set', 'objectStore.dataPlane.byok=true');
    const environmentOf = (name: string) =>
      rendered.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === name)?.['spec']
        .template.spec.containers[0].env;
    expect(environmentOf('objectstore-broker')).toContainEqual({ name: 'DATA_PLANE_BYOK', value: 'true' });
    expect(environmentOf('home-operator')).toContainEqual({
      name: 'GRANT_SIGNING_KEY_FILE',
      value: '/etc/space/objectstore-grants/key',
    });
  });

  it('lets Capsules name an S3 server of yours at its one address and port, and no other private one', async () => {
    const reachOf = (rendered: readonly KubeObject[]) => {
      const [broker] = rendered.filter(
        ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'objectstore-broker',
      );
      const [policy] = rendered.filter(
        ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'objectstore-broker',
      );
      const { annotations } = broker?.['spec'].template.metadata ?? {};
      const variables: { name: string; value?: string }[] =
        broker?.['spec'].template.spec.containers[0].env ?? [];
      const environment = Object.fromEntries(variables.map(({ name, value = '' }) => [name, value]));
      return { annotations, environment, egress: policy?.['spec'].egress ?? [] };
    };
    const usual = reachOf(objects);
    expect(readObjectStoreConfig(usual.environment).BYOK_FIXED_HOSTS).toEqual([]);
    expect(usual.environment['BYOK_CA_FILE']).toBeUndefined();
    const rendered = await render(
      ...['--set', 'objectStore.byok.hosts.s3\\.intern\\.example\\.org=10.1.2.3:9000'],
      ...['--set', 'objectStore.byok.hosts.s4\\.intern\\.example\\.org=[fd00::7]'],
      ...['--set', 'objectStore.byok.extraCA=PEM'],
    );
    const { annotations, environment, egress } = reachOf(rendered);
    expect([...fixedMap(readObjectStoreConfig(environment).BYOK_FIXED_HOSTS)]).toEqual([
      ['s3.intern.example.org', expect.objectContaining({ address: '10.1.2.3', port: 9_000 })],
      ['s4.intern.example.org', expect.objectContaining({ address: 'fd00::7', port: 443 })],
    ]);
    expect(
      egress.filter((rule: object) => !usual.egress.some((one: object) => isDeepStrictEqual(one, rule))),
    ).toEqual([
      { to: [{ ipBlock: { cidr: '10.1.2.3/32' } }], ports: [{ port: 9_000 }] },
      { to: [{ ipBlock: { cidr: 'fd00::7/128' } }], ports: [{ port: 443 }] },
    ]);
    expect(egress).toHaveLength(usual.egress.length + 2);
    expect(environment['BYOK_CA_FILE']).toBe('/etc/space/byok-ca/ca.pem');
    // A changed CA changes the pod, so that it is replaced.
    expect(annotations).not.toEqual(usual.annotations);
  });

  it('uses Secrets that you name and creates none in their place', async () => {
    const yours = [
      'dbAdmin',
      'dbBrokerKeys',
      'dbProvisioner',
      'egressProvisioner',
      'egressObserver',
      'egressKeys',
      'objectStoreRegistry',
      'objectStoreKeys',
      'objectStoreProvisioner',
      'objectStoreGrants',
      's3Root',
      'consoleSession',
    ];
    const certified = ['dbBroker', 'egress', 'postgres', 'objectStoreBroker', 's3', 'console'];
    const rendered = await render(
      ...yours.flatMap((key) => ['--set', `existingSecrets.${key}=${key.toLowerCase()}`]),
      ...certified.flatMap((key) => ['--set', `tls.existingSecrets.${key}=${key.toLowerCase()}-cert`]),
      ...['--set', 'tls.existingCA=my-ca'],
      ...['--set', 'objectStore.dataPlane.byok=true'],
    );
    expect(rendered.filter(({ kind }) => kind === 'Secret')).toEqual([]);
    const text = JSON.stringify(rendered);
    for (const key of yours) expect(text).toContain(`"${key.toLowerCase()}"`);
    for (const key of certified) expect(text).toContain(`"${key.toLowerCase()}-cert"`);
    expect(rendered.some(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'space-ca')).toBe(
      false,
    );
    const mounted = rendered.flatMap(({ spec }) => spec?.template?.spec.volumes ?? []);
    expect(mounted.filter(({ configMap }) => configMap?.name === 'my-ca')).toHaveLength(5);
  });

  it('mounts keys of services only in themselves, and uses plain text if you disable TLS', async () => {
    const holders = objects.filter(({ spec }) =>
      spec?.template?.spec.volumes?.some(({ secret }: { secret?: { secretName: string } }) =>
        secret?.secretName.endsWith('-tls'),
      ),
    );
    expect(holders.map(({ metadata }) => metadata.name).sort()).toEqual([
      'db-broker',
      'home-console',
      'objectstore-broker',
      'platform-assistant-egress',
      'postgres',
      's3',
    ]);
    expect(JSON.stringify(objects)).not.toMatch(/http:\/\/|sslmode=disable/);
    const plain = JSON.stringify(await render('--set', 'tls.enabled=false'));
    expect(plain).toContain('http://db-broker.home-services.svc:8080');
    expect(plain).not.toMatch(/TLS_CERT_FILE|SPACE_CA_FILE|space-ca\b|verify-full|-tls"/);
  });

  it.each([
    ['a value that is not known', ['--set', 'dbBroker.replica=2'], /replica/],
    [
      'an image by half a digest',
      ['--set', 'operator.image=space/operator@sha256:01'],
      /operator.image|operator\/image/,
    ],
    ['an image without a tag', ['--set', 'operator.image=space/operator'], /operator.image|operator\/image/],
    [
      'a certificate of yours without its authority',
      ['--set', 'tls.existingSecrets.postgres=mine'],
      /tls.existingCA/,
    ],
    [
      'an authority of yours without its certificates',
      ['--set', 'tls.existingCA=mine'],
      /tls.existingSecrets.console/,
    ],
    [
      'an S3 server of yours by another name',
      ['--set', 'objectStore.byok.hosts.s3\\.intern\\.example\\.org=minio.minio.svc'],
      /objectStore.byok.hosts|objectStore\/byok\/hosts/,
    ],
    [
      'a block of addresses for an S3 server of yours',
      ['--set', 'objectStore.byok.hosts.s3\\.intern\\.example\\.org=10.0.0.0/8'],
      /objectStore.byok.hosts|objectStore\/byok\/hosts/,
    ],
    ['a word for a number', ['--set-string', 'dbBroker.replicas=two'], /replicas/],
    [
      'the services namespace as its own',
      ['--namespace', 'home-services'],
      /install the release into another/,
    ],
  ])('refuses %s', async (_, args, message) => {
    const { code, stderr } = await template('home', ...args);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(message);
  });

  it.each(['366d', '8784h', '527040m', '31622400s', '367d', '8785h', '527041m', '31622401s'])(
    'accepts the grace %s exactly if the operator does',
    async (grace) => {
      const { code, stderr } = await template('home', '--set', `retention.grace=${grace}`);
      expect(code === 0).toBe(readGrace(grace) !== undefined);
      if (code !== 0) expect(stderr).toContain(`retention.grace is ${grace}; it may be 366d at most`);
    },
  );

  it('names each missing image, and where to read how to get them', async () => {
    const refused = await finish(helm, ['template', 'home', CHART, '--namespace', 'home']);
    expect(refused.code).not.toBe(0);
    for (const value of IMAGE_VALUES) expect(refused.stderr).toContain(value);
    expect(refused.stderr).toMatch(/docs\/chart\.md/);
    const { stderr } = await template('home', '--set-string', 'egress.image=');
    expect(stderr).toContain('no image is set in egress.image: ');
  });

  it('needs no image of what does not run', async () => {
    const none = ['objectStore.image=', 's3.image='].flatMap((value) => ['--set-string', value]);
    expect((await template('home', ...none)).stderr).toContain('objectStore.image, s3.image');
    await render('--set', 'objectStore.enabled=false', ...none);
  });

  it('accepts an image by its digest, with or without a tag', async () => {
    const both = someImage('operator:1.2.3');
    const made = await render('--set-string', `operator.image=${both}`);
    const operator = made.find(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'home-operator',
    );
    expect(operator?.['spec'].template.spec.containers[0].image).toBe(both);
  });

  it.each(['sandbox.attester.image', 's3.image', 'sandbox.attester.accepted[0]'])(
    'refuses a tag in %s until tags are allowed',
    async (value) => {
      const tag = ['--set-string', `${value}=registry.test/some:1`];
      const { code, stderr } = await template('home', ...tag);
      expect(code).not.toBe(0);
      expect(stderr).toContain(`there is no digest in ${value}: `);
      expect(stderr).toContain('image.allowTags');
      expect(JSON.stringify(await render(...tag, '--set', 'image.allowTags=true'))).toContain(
        'registry.test/some:1',
      );
    },
  );

  it('has no two cluster-wide names of which the one may be the other of a release with a longer name', async () => {
    const people = [
      '--set',
      'people.administrators[0].kind=User',
      '--set',
      'people.administrators[0].name=mia',
    ];
    const made = await render(...people, '--set', 'people.wholeCluster=true');
    const wide = made
      .filter(({ kind, metadata }) => kind === 'Namespace' || metadata.namespace === undefined)
      .filter(({ metadata }) => metadata.name.startsWith('home-'))
      .map(({ kind, metadata }) => ({ kind, suffix: metadata.name.slice('home'.length) }));
    const clashing = wide.flatMap((one) =>
      wide
        .filter(
          ({ kind, suffix }) => kind === one.kind && suffix !== one.suffix && one.suffix.endsWith(suffix),
        )
        .map(({ kind, suffix }) => `${kind} ${one.suffix} and ${suffix}`),
    );
    expect(wide.length).toBeGreaterThan(50);
    expect(clashing).toEqual([]);
  });

  it('writes names of namespaces and Secrets as text, also those that look like a number', async () => {
    const named = ['network.monitoringNamespace', 'network.dns.namespace', 'backup.s3.pods.namespace'];
    const values = [
      ...[...named, 'console.ingress.tlsSecret', 'backup.s3.pods.labels.app'].map((value) => `${value}=1e3`),
      'console.ingress.host=space.example.org',
    ];
    const set = values.flatMap((value) => ['--set-string', value]);
    const text = JSON.stringify(await render(...SOME_BACKUP, ...set));
    expect(text).toContain('"secretName":"1e3"');
    expect(text.match(/"kubernetes.io\/metadata.name":"1e3"/g)?.length).toBeGreaterThan(8);
    expect(text).not.toMatch(/[nN]ame":1000\b/);
  });

  it.each(['a.b', '1st', 'a--b', 'null', 'on', 'y', 'a'.repeat(41)])(
    'refuses the name %s, which cannot name a Space',
    async (name) => {
      const { code, stderr } = await template(name);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/cannot name a Space/);
    },
  );
});
