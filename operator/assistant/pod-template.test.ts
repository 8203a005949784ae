import { checkAssistantSpec, checkManifest } from '@space/manifests';
import { describe, expect, test } from 'vitest';
import type { Assistant } from '../kinds.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import { describeWorkload, type Workload } from './identity.ts';
import { deploymentObject, serviceObject } from './pod-template.ts';

const bindings = {
  database: { digest: 'd1', verified: false },
  postgresAddress: '10.96.0.7',
  canaryAddresses: ['10.96.0.9'],
};

function workload(spec: Partial<Assistant['spec']> = {}, changes: Record<string, unknown> = {}): Workload {
  const check = checkManifest(manifest('ledger', changes));
  if (!check.ok) throw new Error(JSON.stringify(check.errors));
  const whole = { capsule: 'household', image: 'registry.test/ledger:1', manifest: check.manifest, ...spec };
  return describeWorkload(names, { metadata: { name: 'a', uid: 'u' }, spec: whole }, check.manifest);
}

interface Template {
  readonly template: { readonly metadata: object; readonly spec: Record<string, unknown> };
}
const templateOf = (given: Workload) =>
  (deploymentObject(given, bindings).desired['spec'] as Template).template;

describe('a pod', () => {
  const { spec } = templateOf(workload());
  const [container] = spec['containers'] as [Record<string, unknown>];

  test('runs under the sandbox’s class, with no token, no rights and no root', () => {
    expect(spec).toMatchObject({
      runtimeClassName: 'gvisor',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
    });
    // Nor a user of its own: that is the image's or, where it gives one, the cluster's.
    expect(spec['securityContext']).toEqual({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(container['securityContext']).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });

  test('proves that it is in the sandbox before anything else of it starts', () => {
    expect(spec['initContainers']).toMatchObject([
      {
        name: 'attest',
        image: 'registry.test/attester:1',
        command: ['/attest', '-the canary=10.96.0.9:7002', '+PostgreSQL=10.96.0.7:5432'],
      },
    ]);
    // The kubelet starts what follows one of these before it has succeeded.
    expect(spec['initContainers']).not.toHaveProperty('0.restartPolicy');
  });

  test('queries no DNS, and has one name in its hosts file', () => {
    expect(spec).toMatchObject({ dnsPolicy: 'None', dnsConfig: { nameservers: ['127.0.0.1'] } });
    expect(spec['hostAliases']).toEqual([{ ip: '10.96.0.7', hostnames: ['postgres'] }]);
  });

  test('knows a PostgreSQL that the Space does not run by its own name, port and authority', () => {
    const databaseServer = { host: 'pg-rw.db.svc', addresses: ['10.96.3.4'], port: 5433, egress: [] };
    const { desired } = deploymentObject(
      { ...workload(), names: { ...names, databaseServer } },
      {
        ...bindings,
        postgresAddress: '10.96.3.4',
        database: { digest: 'd1', verified: true, serverCa: true },
      },
    );
    const { spec: own } = (desired['spec'] as Template).template;
    expect(own['hostAliases']).toEqual([{ ip: '10.96.3.4', hostnames: ['pg-rw.db.svc'] }]);
    expect(JSON.stringify(own['initContainers'])).toContain('"+PostgreSQL=10.96.3.4:5433"');
    const paths = JSON.stringify(own['volumes']).match(/tls\/[a-z]+\.crt/g);
    expect(paths).toEqual(['tls/ca.crt', 'tls/postgres.crt']);
  });

  test('knows both addresses of such a server, and tests the network policies with the first', () => {
    const addresses = ['fd00:10:96::4', '10.96.3.4'];
    const databaseServer = { host: 'pg', addresses, port: 5433, egress: [] };
    const { desired } = deploymentObject(
      { ...workload(), names: { ...names, databaseServer } },
      { ...bindings, postgresAddress: 'fd00:10:96::4' },
    );
    const { spec: own } = (desired['spec'] as Template).template;
    expect(own['hostAliases']).toEqual(addresses.map((ip) => ({ ip, hostnames: ['pg'] })));
    expect(JSON.stringify(own['initContainers'])).toContain('"+PostgreSQL=fd00:10:96::4:5433"');
  });

  test('knows every PostgreSQL server of its Space by name, and tests the network policies with the first', () => {
    const furtherDatabaseServers = [
      { host: 'pg-b', addresses: ['10.96.3.5', 'fd00::5'], port: 5433, egress: [] },
      { host: 'pg-c', addresses: ['10.96.3.5'], port: 5434, egress: [] },
    ];
    const { desired } = deploymentObject(
      { ...workload(), names: { ...names, furtherDatabaseServers } },
      { ...bindings, egress: { address: '10.96.0.10', principalDigest: 'e1', inputs: [] } },
    );
    const { spec: own } = (desired['spec'] as Template).template;
    // An address is a key of the list: the API server takes none twice.
    expect(own['hostAliases']).toEqual([
      { ip: '10.96.0.7', hostnames: ['postgres'] },
      { ip: '10.96.3.5', hostnames: ['pg-b', 'pg-c'] },
      { ip: 'fd00::5', hostnames: ['pg-b'] },
      { ip: '10.96.0.10', hostnames: ['assistant-egress'] },
    ]);
    expect(JSON.stringify(own['containers'])).toContain('"postgres,pg-b,pg-c,assistant-egress,');
    expect(own['initContainers']).toEqual(spec['initContainers']);
  });

  test('has its names and tests its network policies where there are only IPv6 addresses', () => {
    const { desired } = deploymentObject(workload(), {
      database: { digest: 'd1', verified: true },
      postgresAddress: 'fd00:10:96::7',
      canaryAddresses: ['fd00:10:96::9'],
      objects: { tokenDigest: 'o1', address: 'fd00:10:96::8', granted: false },
      egress: { address: 'fd00:10:96::a', principalDigest: 'e1', inputs: [] },
    });
    const { spec: own } = (desired['spec'] as Template).template;
    expect(own['hostAliases']).toEqual([
      { ip: 'fd00:10:96::7', hostnames: ['postgres'] },
      { ip: 'fd00:10:96::8', hostnames: ['objectstore'] },
      { ip: 'fd00:10:96::a', hostnames: ['assistant-egress'] },
    ]);
    expect(own['initContainers']).toMatchObject([
      { command: ['/attest', '-the canary=fd00:10:96::9:7002', '+PostgreSQL=fd00:10:96::7:5432'] },
    ]);
  });

  test('can write to bounded memory only', () => {
    expect(spec['volumes']).toContainEqual({
      name: 'tmp',
      emptyDir: { medium: 'Memory', sizeLimit: '64Mi' },
    });
    expect(container['volumeMounts']).toContainEqual({
      name: 'space',
      mountPath: '/etc/space',
      readOnly: true,
    });
  });

  test('gets the variables of the platform after those of the spec, and its URL from a Secret', () => {
    const { spec: own } = templateOf(workload({ env: [{ name: 'LOG_LEVEL', value: 'debug' }], port: 9000 }));
    const [{ env }] = own['containers'] as [{ env: object[] }];
    expect(env).toEqual([
      { name: 'LOG_LEVEL', value: 'debug' },
      { name: 'CAPSULE_ID', value: 'household' },
      { name: 'ASSISTANT_ID', value: 'ledger' },
      { name: 'PORT', value: '9000' },
      { name: 'DATABASE_URL', valueFrom: { secretKeyRef: { name: 'ledger-database', key: 'DATABASE_URL' } } },
    ]);
  });
});

test('every variable that the platform sets is refused in a spec, except the one that a spec may override', () => {
  const given = workload();
  const { desired } = deploymentObject(given, {
    database: { digest: 'd1', verified: true },
    postgresAddress: '10.96.0.7',
    canaryAddresses: ['10.96.0.9'],
    objects: { tokenDigest: 'o1', address: '10.96.0.8', granted: true },
    egress: { address: '10.96.0.9', principalDigest: 'e1', inputs: ['bank', 'second-bank-2'] },
  });
  const { template } = desired['spec'] as Template;
  const [{ env }] = template.spec['containers'] as [{ env: { name: string }[] }];
  const set = env.map(({ name }) => name);
  expect(set).toContain('INPUT_SECOND_BANK_2_URL');
  const { spec } = given.assistant;
  const taken = set.filter((name) => checkAssistantSpec({ ...spec, env: [{ name, value: 'mine' }] }).ok);
  expect(taken).toEqual(['NODE_EXTRA_CA_CERTS']);
});

test.each([
  ['its own, where it names one', [{ name: 'NODE_EXTRA_CA_CERTS', value: '/data/ca.pem' }], '/data/ca.pem'],
  ['the Space’s, where it names none', [], '/etc/space/tls/ca.crt'],
])('the CA for Node is set once: %s', (_, env, expected) => {
  const { desired } = deploymentObject(workload({ env }), {
    ...bindings,
    database: { digest: 'd1', verified: true },
  });
  const [container] = (desired['spec'] as Template).template.spec['containers'] as [{ env: object[] }];
  const named = container.env.filter((one) => 'name' in one && one.name === 'NODE_EXTRA_CA_CERTS');
  expect(named).toEqual([{ name: 'NODE_EXTRA_CA_CERTS', value: expected }]);
});

describe('the revision', () => {
  const revision = (given: Workload, bound = bindings) => deploymentObject(given, bound).revision;
  const first = revision(workload());
  const { platform } = manifest('ledger');
  const further = (ip: string) => ({ host: 'pg-b', addresses: [ip], port: 5432, egress: [] });
  test.each<[string, string]>([
    ['another image', revision(workload({ image: 'registry.test/ledger:2' }))],
    ['another genesis', revision(workload({}, { platform: { ...platform, genesis: 'Be better.' } }))],
    ['another manifest', revision(workload({}, { platform: { ...platform, version: '1.0.1' } }))],
    [
      'another database URL',
      revision(workload(), { ...bindings, database: { digest: 'd2', verified: false } }),
    ],
    ['another canary', revision(workload(), { ...bindings, canaryAddresses: ['10.96.0.8'] })],
    ['another address of PostgreSQL', revision(workload(), { ...bindings, postgresAddress: '10.96.0.8' })],
    [
      'another address of a further PostgreSQL',
      revision({ ...workload(), names: { ...names, furtherDatabaseServers: [further('10.96.3.5')] } }),
    ],
    ['another environment', revision(workload({ env: [{ name: 'A', value: 'b' }] }))],
  ])('changes with %s', (_, other) => expect(other).not.toBe(first));
  test('does not change if a Space has no further PostgreSQL server', () =>
    expect(revision({ ...workload(), names: { ...names, furtherDatabaseServers: [] } })).toBe(first));
  test('does not change with the number of replicas', () =>
    expect(revision(workload({ replicas: 3 }))).toBe(first));
});

test('documents are named by their content, and have all of it', () => {
  const { manifest: document, genesis } = workload().documents;
  expect(document.name).toMatch(/^ledger-manifest-[0-9a-f]{64}$/);
  expect(JSON.parse(document.text)).toEqual(manifest('ledger'));
  expect(genesis).toMatchObject({ key: 'genesis.txt', text: 'You do nothing, well.' });
  expect(genesis.name).toMatch(/^ledger-genesis-[0-9a-f]{64}$/);
});

test('the Service selects only this Assistant’s pods', () => {
  const { metadata, spec } = serviceObject(workload({ port: 9000 })) as ReturnType<typeof serviceObject> & {
    spec: object;
  };
  expect(metadata.name).toBe('ledger');
  expect(spec).toMatchObject({
    type: 'ClusterIP',
    selector: { 'platform.space/capsule': 'household', 'platform.space/assistant': 'ledger' },
    ports: [{ port: 9000, targetPort: 9000 }],
  });
});
