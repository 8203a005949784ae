import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig as readObjectStoreConfig } from '../../brokers/objectstore/config.ts';
import { readConfig as readConsoleConfig } from '../../console/config.ts';
import { covers, within } from '../verify/blocks.ts';
import type { KubeObject } from './kube-object.ts';
import { type Helm, podsIn, set, startHelm } from './testing/rendered.ts';

interface Block {
  readonly cidr: string;
  readonly except?: readonly string[];
}
/** Addresses of either family that no rule for the whole world may allow. */
const INSIDE = [
  ...['10.1.2.3', '172.20.0.1', '192.168.0.9', '100.64.0.1', '169.254.169.254'],
  ...['fd00:10:96::1', 'fd00:ec2::254', 'fe80::1'],
];
/** The same addresses behind the well-known NAT64 prefix, and behind a prefix of the network's own. */
const TRANSLATED = [
  '64:ff9b::10.1.2.3',
  '64:ff9b::169.254.169.254',
  '64:ff9b::172.20.0.1',
  '64:ff9b::192.168.0.9',
];
const OWN_PREFIX = '2a00:64::/96';
const OWN_TRANSLATED = TRANSLATED.map((address) => address.replace('64:ff9b::', '2a00:64::'));
const OUTSIDE = ['203.0.113.7', '2606:4700::1111', '64:ff9b::203.0.113.7', '2a00:64::203.0.113.7'];

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

const policiesIn = (objects: readonly KubeObject[]) => objects.filter(({ kind }) => kind === 'NetworkPolicy');
const blocksOf = (policy: KubeObject): readonly Block[] =>
  (policy['spec'].egress ?? []).flatMap(({ to = [] }: { to?: { ipBlock?: Block }[] }) =>
    to.flatMap(({ ipBlock }) => ipBlock ?? []),
  );
/** Whether the policy of one pod allows the address, on port 443. */
const isLetTo = (objects: readonly KubeObject[], name: string, address: string): boolean => {
  const policy = policiesIn(objects).find(({ metadata }) => metadata.name === name);
  return blocksOf(policy as KubeObject).some(({ cidr, except = [] }) =>
    covers({ cidr, except, ports: [] }, 'tcp', { address, port: 443 }),
  );
};
const environmentIn = (objects: readonly KubeObject[], deployment: string): Record<string, string> => {
  const { env } = podsIn(objects).get(deployment).containers[0];
  return Object.fromEntries(
    env.map(({ name, value = '' }: { name: string; value?: string }) => [name, value]),
  );
};

describe('NetworkPolicies', () => {
  it('allow the whole of one family only to pods that may reach the whole of the other', async () => {
    const world =
      (family: string) =>
      ({ to = [] }: { to?: { ipBlock?: Block }[] }) =>
        to.some(({ ipBlock }) => ipBlock?.cidr === family);
    for (const { metadata, spec } of policiesIn(await helm.render()))
      for (const rule of spec.egress ?? [])
        expect([metadata.name, world('0.0.0.0/0')(rule)]).toEqual([metadata.name, world('::/0')(rule)]);
  });

  it.each(['egress', 'objectstore-broker'])(
    'let %s reach the outside, and nothing inside, in either family',
    async (name) => {
      const made = await helm.render(...set(`egress.nat64Prefixes={${OWN_PREFIX}}`));
      const reached = (addresses: readonly string[]) => addresses.filter((at) => isLetTo(made, name, at));
      expect(reached(OUTSIDE)).toEqual(OUTSIDE);
      expect(reached([...INSIDE, ...TRANSLATED, ...OWN_TRANSLATED])).toEqual([]);
    },
  );

  // The API server accepts no other list, and would refuse it only after Helm has begun to write.
  it.each([
    ['as they are', []],
    [
      'where endpoints are in blocks of yours',
      ['objectStore.byok.cidrs={203.0.113.0/24,10.9.0.0/16,8.0.0.0/6,2001:db8::/32}'],
    ],
    ['where the API server’s address is known', ['network.apiServerCIDRs={198.51.100.4/32,fd00::1/128}']],
    [
      'where NAT64 has a prefix of its own',
      ['egress.nat64Prefixes={2a00:64::/96,2a00:65::/64,2a00:1:2:3:4:5::/96}'],
    ],
  ])('except only addresses that they otherwise allow: %s', async (_, values) => {
    for (const policy of policiesIn(await helm.render(...set(...values))))
      for (const { cidr, except = [] } of blocksOf(policy))
        for (const part of except) {
          const [network = '', bits] = part.split('/');
          expect([cidr, part, within(cidr, network)]).toEqual([cidr, part, true]);
          expect(Number(bits)).toBeGreaterThan(Number(cidr.split('/')[1]));
        }
  });

  it('except private blocks from a narrower block that contains some', async () => {
    const made = await helm.render(...set('objectStore.byok.cidrs={8.0.0.0/6,203.0.113.0/24}'));
    const to = (address: string) => isLetTo(made, 'objectstore-broker', address);
    expect(['8.8.8.8', '10.1.2.3', '203.0.113.7', '203.0.114.1'].map(to)).toEqual([true, false, true, false]);
  });
});

describe('Services', () => {
  const familiesIn = (objects: readonly KubeObject[]) =>
    Object.fromEntries(
      objects
        .filter(({ kind }) => kind === 'Service')
        .map(({ metadata, spec }) => [metadata.name, spec.ipFamilyPolicy]),
    );

  it('have the cluster’s families by default, and the canary has all', async () => {
    const { canary, ...others } = familiesIn(await helm.render());
    expect(canary).toBe('PreferDualStack');
    expect(new Set(Object.values(others))).toEqual(new Set([undefined]));
  });

  it('have the families that you set, except the one that names single pods, each of which would be named twice', async () => {
    const made = familiesIn(await helm.render(...set('network.ipFamilyPolicy=PreferDualStack')));
    const { 'egress-replicas': replicas, ...others } = made;
    expect(replicas).toBe('SingleStack');
    expect(Object.keys(others).toSorted()).toEqual([
      'canary',
      'console',
      'db-broker',
      'objectstore',
      'objectstore-broker',
      'platform-assistant-egress',
      'postgres',
      's3',
    ]);
    expect(new Set(Object.values(others))).toEqual(new Set(['PreferDualStack']));
    const one = familiesIn(await helm.render(...set('network.ipFamilyPolicy=SingleStack')));
    expect([one['canary'], one['console']]).toEqual(['PreferDualStack', 'SingleStack']);
    expect((await helm.template(...set('network.ipFamilyPolicy=Both'))).stderr).toMatch(/ipFamilyPolicy/);
  });
});

describe('an IPv6 address', () => {
  const AT = 'objectStore.external';
  const S3 = [
    `${AT}.endpoint=https://[fd00::9]:9000`,
    `${AT}.cidrs={fd00::9/128}`,
    'existingSecrets.s3Root=s3-of-ours',
  ];

  it.each([
    ['https://[fd00::9]:9000', 9000],
    ['https://[fd00::9]', 443],
  ])('is where the S3 server of yours is: %s', async (endpoint, port) => {
    const made = await helm.render(...set(...S3, `${AT}.endpoint=${endpoint}`));
    expect(readObjectStoreConfig(environmentIn(made, 'objectstore-broker')).S3_ENDPOINT).toBe(endpoint);
    const policy = policiesIn(made).find(({ metadata }) => metadata.name === 'objectstore-broker');
    expect(policy?.['spec'].egress).toContainEqual({
      to: [{ ipBlock: { cidr: 'fd00::9/128' } }],
      ports: [{ protocol: 'TCP', port }],
    });
  });

  it.each(['https://[fd00::9]:9000', 'https://203.0.113.9'])(
    'has no name of a bucket before it: %s',
    async (endpoint) => {
      const wrong = set(...S3, `${AT}.endpoint=${endpoint}`, `${AT}.addressing=virtual-host`);
      const { code, stderr } = await helm.template(...wrong);
      expect(code).not.toBe(0);
      expect(stderr).toContain('objectStore.external.addressing is virtual-host');
    },
  );

  it('is an address of the console', async () => {
    const made = await helm.render(...set('console.origins={https://[fd00::5]:8443}'));
    expect(readConsoleConfig(environmentIn(made, 'home-console')).ORIGINS).toContain(
      'https://[fd00::5]:8443',
    );
  });

  it('of a NAT64 is judged by gateway and object-storage broker', async () => {
    const made = await helm.render(...set(`egress.nat64Prefixes={${OWN_PREFIX}}`));
    const config = readObjectStoreConfig(environmentIn(made, 'objectstore-broker'));
    expect(config.BYOK_NAT64_PREFIXES).toEqual([OWN_PREFIX]);
    expect(environmentIn(made, 'platform-assistant-egress')['NAT64_PREFIXES']).toBe(OWN_PREFIX);
  });
});
