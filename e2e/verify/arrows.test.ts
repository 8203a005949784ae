/** The NetworkPolicies of the chart and the operator allow what the arrows say, and nothing else. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { assistantsPolicyObject, defaultDenyObject } from '../../operator/capsule/guardrails.ts';
import type { Capsule } from '../../operator/kinds.ts';
import type { DatabaseServer, SpaceNames } from '../../operator/names.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_BACKUP, SOME_IMAGES } from '../space/chart.ts';
import { finish } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { isAllowed, type Party, type Picture } from './arrows.ts';
import { type Endpoint, type Policy, policiesAllow } from './testing/judge.ts';

const names = {
  space: 'home',
  namespace: 'people',
  systemNamespace: 'home-system',
  servicesNamespace: 'home-services',
} as SpaceNames;
const capsules = ['one', 'two'].map(
  (name) => ({ metadata: { name, namespace: 'people', uid: name }, spec: {} }) as unknown as Capsule,
);
const inCapsule = (name: string) => ({
  name: `${name}-namespace`,
  labels: { 'platform.space/space': 'home', 'platform.space/capsule': name },
});
const place = (name: string) => ({ name, labels: { 'platform.space/space': 'home' } });
const [system, services] = [place('home-system'), place('home-services')];

const part = (namespace: { name: string; labels: Record<string, string> }, component: string): Endpoint => ({
  namespace,
  labels: { 'platform.space/space': 'home', 'platform.space/component': component },
});
/**
 * Each party, and two pods that have no arrow: one without labels in a namespace of the Space, and one in a
 * Capsule's.
 */
const ENDS: Readonly<Record<string, { readonly party: Party | 'dns' | 'nobody'; readonly end: Endpoint }>> = {
  ...Object.fromEntries(
    (
      [
        'operator',
        'console',
        'keys',
        'uninstall-guard',
        'release-test',
        'network-probe',
        'sandbox-probe',
      ] as const
    ).map((party) => [party, { party, end: part(system, party) }]),
  ),
  ...Object.fromEntries(
    (['db-broker', 'objectstore-broker', 'egress', 'postgres', 's3', 'canary', 'backup'] as const).map(
      (party) => [party, { party, end: part(services, party) }],
    ),
  ),
  ...Object.fromEntries(
    capsules.map(({ metadata: { name } }) => [
      `assistant of ${name}`,
      {
        party: 'assistant',
        end: { namespace: inCapsule(name), labels: { 'platform.space/assistant': name } },
      },
    ]),
  ),
  'unnamed in a Capsule': { party: 'nobody', end: { namespace: inCapsule('one'), labels: {} } },
  'unnamed in another Capsule': { party: 'nobody', end: { namespace: inCapsule('two'), labels: {} } },
  'unnamed in the system namespace': { party: 'nobody', end: { namespace: system, labels: {} } },
  'unnamed in the services namespace': { party: 'nobody', end: { namespace: services, labels: {} } },
  client: {
    party: 'client',
    end: { namespace: place('people'), labels: { 'platform.space/client': 'true' } },
  },
  neighbour: { party: 'neighbour', end: { namespace: place('people'), labels: {} } },
  stranger: {
    party: 'stranger',
    // It has the labels of a component.
    end: {
      namespace: { name: 'default', labels: {} },
      labels: {
        'platform.space/space': 'home',
        'platform.space/component': 'operator',
        'platform.space/assistant': 'x',
        'platform.space/client': 'true',
      },
    },
  },
  dns: {
    party: 'dns',
    end: { namespace: { name: 'kube-system', labels: {} }, labels: { 'k8s-app': 'kube-dns' } },
  },
};
const PORTS = [53, 80, 3128, 5432, 7001, 7002, 7003, 7011, 7012, 7013, 7070, 8080, 8081, 8443, 9090, 10250];

/** Every open connection from or to a pod that has policies. */
function open(policies: readonly Policy[]): string[] {
  return ways((from, to, protocol, port) => policiesAllow(policies, from.end, to.end, protocol, port));
}

type Placed = (typeof ENDS)[string];

function ways(
  isOpen: (from: Placed, to: Placed, protocol: 'TCP' | 'UDP', port: number) => boolean,
): string[] {
  const outside = ['client', 'neighbour', 'stranger', 'dns'];
  const found: string[] = [];
  for (const [name, from] of Object.entries(ENDS))
    for (const [other, to] of Object.entries(ENDS)) {
      if (name === other || (outside.includes(name) && outside.includes(other)) || name === 'dns') continue;
      for (const protocol of ['TCP', 'UDP'] as const)
        for (const port of PORTS)
          if (isOpen(from, to, protocol, port)) found.push(`${name} -> ${other} ${protocol} ${port}`);
    }
  return found;
}

const drawn = (picture: Picture = { backup: false }) =>
  ways(
    ({ party: from }, { party: to }, protocol, port) =>
      from !== 'nobody' &&
      to !== 'nobody' &&
      from !== 'dns' &&
      isAllowed(picture, from, to, protocol === 'TCP' ? 'tcp' : 'udp', port),
  );

let directory: string;
let policies: readonly Policy[];
/** The policies of a Space with a backup. */
let backedUp: readonly Policy[];
/** The policies of a Space with a second PostgreSQL server. */
let several: readonly Policy[];

async function policiesWith(helm: string, flags: readonly string[]): Promise<Policy[]> {
  const { code, stdout, stderr } = await finish(helm, [
    'template',
    'home',
    CHART,
    '--namespace',
    'people',
    ...SOME_IMAGES,
    '--set',
    'console.enabled=true',
    ...flags,
  ]);
  if (code !== 0) throw new Error(stderr);
  const objects = parseAllDocuments(stdout).flatMap((document): KubeObject[] => document.toJS() ?? []);
  const known = { ...names, furtherDatabaseServers: furtherServersOf(objects) };
  const made = capsules.flatMap((capsule) =>
    [defaultDenyObject(known, capsule), assistantsPolicyObject(known, capsule)].map(({ metadata, spec }) => ({
      name: metadata.name,
      namespace: inCapsule(capsule.metadata.name).name,
      spec: spec as Policy['spec'],
    })),
  );
  const charted = objects
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .map(({ metadata, spec }) => ({ name: metadata.name, namespace: metadata.namespace ?? '', spec }));
  return [...charted, ...made];
}

/** The list of further PostgreSQL servers that the chart passes to the operator. */
function furtherServersOf(objects: readonly KubeObject[]): readonly DatabaseServer[] {
  const operator = objects.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'home-operator',
  );
  const { env } = operator?.['spec'].template.spec.containers[0] ?? { env: [] };
  const { value = '[]' } =
    env.find(({ name }: { readonly name: string }) => name === 'FURTHER_DATABASE_SERVERS') ?? {};
  return JSON.parse(value);
}

const SERVER = 'postgres.servers[0]';
/** Flags for Helm of a further server, at the addresses from 203.0.113.16 to .31. */
const SOME_SERVER = [
  `${SERVER}.name=b`,
  `${SERVER}.host=pg-b.example.org`,
  `${SERVER}.existingSecret=pg-b`,
  `${SERVER}.ca=PEM`,
  `${SERVER}.assistants.addresses={203.0.113.17}`,
  `${SERVER}.cidrs={203.0.113.16/28}`,
].flatMap((value) => ['--set', value]);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-arrows-'));
  const helm = await findTool('helm', directory);
  [policies, backedUp, several] = await Promise.all([
    policiesWith(helm, []),
    policiesWith(helm, SOME_BACKUP),
    policiesWith(helm, SOME_SERVER),
  ]);
}, 600_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

describe('the NetworkPolicies of a Space', () => {
  it('let through every arrow of the picture, and nothing else', () => {
    expect(open(policies)).toEqual(drawn());
  });

  it('let through what a backup needs if there is one, and nothing else', () => {
    expect(open(backedUp)).toEqual(drawn({ backup: true }));
    const more = byAddress(backedUp, '203.0.113.7', 443).filter(
      (name) => !byAddress(policies, '203.0.113.7', 443).includes(name),
    );
    expect(more).toEqual(['postgres', 'backup']);
    // Its own policy leads to the bucket alone.
    expect(byAddress(backedUp, '203.0.113.9', 443)).not.toContain('postgres');
    const own = backedUp.find(({ name }) => name === 'backup');
    expect(open(backedUp.filter((policy) => policy !== own))).not.toEqual(drawn({ backup: true }));
  });

  it('let the same pods reach a further PostgreSQL as the first, except the object-storage broker', () => {
    expect(open(several)).toEqual(drawn());
    expect(byAddress(several, '203.0.113.17', 5432)).toEqual([
      'network-probe',
      'db-broker',
      'assistant of one',
      'assistant of two',
    ]);
    expect(byAddress(several, '203.0.113.9', 5432)).toEqual([]);
    expect(byAddress(several, '203.0.113.17', 443)).toEqual(byAddress(policies, '203.0.113.17', 443));
  });

  it('open on one side alone only what the picture has both sides of, and a few ways that are closed on the other', () => {
    const walled = (way: string) => WALLED.some(([name]) => way.startsWith(`${name} -> `));
    const toWalled = (way: string) => WALLED.some(([name]) => way.includes(`-> ${name} `));
    const out = open(oneSide('Egress')).filter((way) => walled(way) && !drawn().includes(way));
    expect(out).toEqual(['network-probe -> canary TCP 7003', 'network-probe -> canary UDP 7013']);
    const into = open(oneSide('Ingress')).filter((way) => toWalled(way) && !drawn().includes(way));
    const others = into.filter(
      (way) => !/(-> canary (TCP 7002|UDP 7012)|-> (db|objectstore)-broker TCP 8080)$/.test(way),
    );
    expect(others).toEqual([]);
    // The Space's own components may read the discovery documents, and nobody else.
    const asking = into.filter((way) => way.endsWith('TCP 8080')).map((way) => way.split(' -> ')[0] ?? '');
    expect(asking.filter((name) => /assistant|unnamed|client|neighbour|stranger/.test(name))).toEqual([]);
  });

  it('are each needed: without any one of them another connection is open, or a drawn one is closed', () => {
    expect(policies.length).toBeGreaterThan(15);
    const unneeded = policies.filter((policy) => {
      const others = policies.filter((other) => other !== policy);
      return JSON.stringify(open(others)) === JSON.stringify(drawn()) && sameAddresses(others);
    });
    expect(unneeded.map(({ namespace, name }) => `${namespace}/${name}`)).toEqual([]);
  });

  it('let only the parties of the picture reach addresses', () => {
    const reaching = (address: string, port: number) => [...byAddress(policies, address, port)];
    expect(reaching('203.0.113.9', 443)).toEqual([
      'operator',
      'console',
      'keys',
      'uninstall-guard',
      'release-test',
      'objectstore-broker',
      'egress',
    ]);
    // Gateway and broker check addresses themselves; in addition their policies allow no address inside.
    for (const part of ['egress', 'objectstore-broker'])
      expect(reaching('10.0.0.1', 443)).not.toContain(part);
    expect(reaching('203.0.113.9', 80)).toEqual([]);
    expect(reaching('169.254.169.254', 80)).toEqual([]);
    expect(reaching('10.0.0.1', 10250)).toEqual([]);
  });
});

/** The policies as if those of the other direction allowed everything. */
const oneSide = (side: 'Egress' | 'Ingress') =>
  policies.map((policy) => ({
    ...policy,
    spec: { ...policy.spec, policyTypes: policy.spec.policyTypes.filter((type) => type === side) },
  }));

const WALLED = Object.entries(ENDS).filter(
  ([name]) => !['client', 'neighbour', 'stranger', 'dns'].includes(name),
);

const byAddress = (of: readonly Policy[], address: string, port: number) =>
  WALLED.filter(([, { end }]) => policiesAllow(of, end, { address }, 'TCP', port)).map(([name]) => name);

const sameAddresses = (others: readonly Policy[]) =>
  [443, 80].every(
    (port) =>
      byAddress(others, '203.0.113.9', port).join() === byAddress(policies, '203.0.113.9', port).join(),
  );
