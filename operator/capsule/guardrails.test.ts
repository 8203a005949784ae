import { expect, test } from 'vitest';
import type { Capsule } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import { names } from '../testing/names.ts';
import * as guardrails from './guardrails.ts';

const capsule = (spec: Capsule['spec'] = {}): Capsule => ({
  metadata: { name: 'household', uid: 'u' },
  spec,
});

test('the namespace enforces restricted Pod Security and says whose it is', () => {
  const { metadata } = guardrails.namespaceObject(names, capsule());
  expect(metadata.labels).toEqual({
    'platform.space/space': 'home',
    'platform.space/capsule': 'household',
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/enforce-version': 'latest',
    'pod-security.kubernetes.io/audit': 'restricted',
    'pod-security.kubernetes.io/audit-version': 'latest',
    'pod-security.kubernetes.io/warn': 'restricted',
    'pod-security.kubernetes.io/warn-version': 'latest',
  });
  expect(metadata.annotations).toEqual({ 'platform.space/owner-uid': 'u' });
});

test('the ResourceQuota has the limits of the spec, and always limits pods and Services that are reachable from outside', () => {
  const hard = (spec: Capsule['spec']) =>
    (guardrails.quotaObject(names, capsule(spec))['spec'] as { hard: object }).hard;
  const always = { pods: '100', 'services.nodeports': '0', 'services.loadbalancers': '0' };
  expect(hard({})).toEqual({ ...always, 'limits.cpu': '100000m', 'limits.memory': '51200Mi' });
  expect(hard({ quota: { pods: 2, memory: '1Gi' } })).toMatchObject({
    'limits.cpu': '2000m',
    'limits.memory': '1Gi',
  });
  expect(hard({ quota: { cpu: '2', memory: '4Gi', pods: 7 } })).toEqual({
    ...always,
    pods: '7',
    'limits.cpu': '2',
    'limits.memory': '4Gi',
  });
});

test('a container has a limit of its own where the quota has none', () => {
  const max = (spec: Capsule['spec']) => {
    const { limits } = guardrails.limitRangeObject(names, capsule(spec))['spec'] as {
      limits: { max?: object }[];
    };
    return limits.map((limit) => limit.max);
  };
  expect(max({})).toEqual([{ cpu: '8', memory: '16Gi' }]);
  expect(max({ quota: { cpu: '500m' } })).toEqual([{ memory: '16Gi' }]);
  expect(max({ quota: { cpu: '64', memory: '256Gi' } })).toEqual([undefined]);
});

test('a container without limits gets the default ones, also where the quota has limits of its own', () => {
  for (const spec of [{}, { quota: { cpu: '500m', memory: '1Gi' } }]) {
    const { limits } = guardrails.limitRangeObject(names, capsule(spec))['spec'] as { limits: object[] };
    expect(limits).toHaveLength(1);
    expect(limits[0]).toMatchObject({
      type: 'Container',
      default: { cpu: '1', memory: '512Mi' },
      defaultRequest: { cpu: '25m', memory: '64Mi' },
    });
  }
});

test('an Assistant may reach a PostgreSQL that the Space does not run, instead of the Space’s own', () => {
  const egress = [
    { to: [{ ipBlock: { cidr: '203.0.113.7/32' } }], ports: [{ protocol: 'TCP', port: 5433 }] },
  ];
  const databaseServer = { host: 'pg', addresses: ['203.0.113.7'], port: 5433, egress };
  const rules = (given: SpaceNames) =>
    (guardrails.assistantsPolicyObject(given, capsule())['spec'] as { egress: object[] }).egress;
  expect(rules({ ...names, databaseServer })).toEqual([...egress, ...rules(names).slice(1)]);
});

test('an Assistant may reach every PostgreSQL of its Space, the first and the further ones', () => {
  const at = (cidr: string) => [{ to: [{ ipBlock: { cidr } }], ports: [{ protocol: 'TCP', port: 5432 }] }];
  const server = (host: string, cidr: string) => ({ host, addresses: [], port: 5432, egress: at(cidr) });
  const furtherDatabaseServers = [server('b', '203.0.113.8/32'), server('c', '203.0.113.9/32')];
  const further = [...at('203.0.113.8/32'), ...at('203.0.113.9/32')];
  const rules = (given: SpaceNames) =>
    (guardrails.assistantsPolicyObject(given, capsule())['spec'] as { egress: object[] }).egress;
  const [own, ...others] = rules(names);
  expect(rules({ ...names, furtherDatabaseServers })).toEqual([own, ...further, ...others]);
  const databaseServer = server('a', '203.0.113.7/32');
  expect(rules({ ...names, databaseServer, furtherDatabaseServers })).toEqual([
    ...at('203.0.113.7/32'),
    ...further,
    ...others,
  ]);
  expect(rules({ ...names, furtherDatabaseServers: [] })).toEqual(rules(names));
});

test('everything is denied except that clients reach an Assistant, and an Assistant reaches PostgreSQL, object store and gateway', () => {
  expect(guardrails.defaultDenyObject(names, capsule())['spec']).toEqual({
    podSelector: {},
    policyTypes: ['Ingress', 'Egress'],
    ingress: [],
    egress: [],
  });
  const inNamespace = (name: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });
  expect(guardrails.assistantsPolicyObject(names, capsule())['spec']).toMatchObject({
    podSelector: { matchExpressions: [{ key: 'platform.space/assistant', operator: 'Exists' }] },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [
      {
        from: [
          {
            namespaceSelector: inNamespace('home'),
            podSelector: { matchLabels: { 'platform.space/client': 'true' } },
          },
        ],
      },
    ],
    egress: [
      {
        to: [
          {
            namespaceSelector: inNamespace('home-services'),
            podSelector: { matchLabels: { 'platform.space/component': 'postgres' } },
          },
        ],
        ports: [{ protocol: 'TCP', port: 5432 }],
      },
      {
        to: [
          {
            namespaceSelector: inNamespace('home-services'),
            podSelector: { matchLabels: { 'platform.space/component': 'objectstore-broker' } },
          },
        ],
        ports: [{ protocol: 'TCP', port: 8081 }],
      },
      {
        to: [
          {
            namespaceSelector: inNamespace('home-services'),
            podSelector: { matchLabels: { 'platform.space/component': 'egress' } },
          },
        ],
        ports: [{ protocol: 'TCP', port: 3128 }],
      },
    ],
  });
});

test('the operator grants itself the Secrets of this namespace by the one role that it may bind', () => {
  const identity = { kind: 'ServiceAccount', name: 'home-operator', namespace: 'home-system' } as const;
  const binding = guardrails.secretsBindingObject(names, capsule(), identity);
  expect(binding['roleRef']).toMatchObject({ kind: 'ClusterRole', name: 'home-capsule-secrets' });
  expect(binding['subjects']).toEqual([identity]);
  const person = { kind: 'User', name: 'somebody' } as const;
  expect(guardrails.secretsBindingObject(names, capsule(), person)['subjects']).toEqual([
    { ...person, apiGroup: 'rbac.authorization.k8s.io' },
  ]);
});
