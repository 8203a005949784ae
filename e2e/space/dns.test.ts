import { afterAll, beforeAll, expect, it } from 'vitest';
import type { KubeObject } from './kube-object.ts';
import { type Helm, set, startHelm } from './testing/rendered.ts';

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

interface Peer {
  readonly namespaceSelector?: { readonly matchLabels: Record<string, string> };
  readonly podSelector?: { readonly matchLabels: Record<string, string> };
}
interface Rule {
  readonly to?: readonly Peer[];
  readonly ports?: readonly { readonly port: number; readonly protocol?: string }[];
}

/** Pods that may query DNS, by the name of their policy, with the rule that allows UDP to that port. */
const askersIn = (objects: readonly KubeObject[], dns = 53): ReadonlyMap<string, Rule> =>
  new Map(
    objects
      .filter(({ kind }) => kind === 'NetworkPolicy')
      .flatMap(({ metadata, spec }) =>
        (spec.egress ?? []).flatMap((rule: Rule) =>
          rule.ports?.some(({ port, protocol }) => protocol === 'UDP' && port === dns)
            ? [[metadata.name, rule] as const]
            : [],
        ),
      ),
  );
const onPort = (port: number) => ['UDP', 'TCP'].map((protocol) => ({ port, protocol }));
const pods = (namespace: string, matchLabels: Record<string, string>) => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
  podSelector: { matchLabels },
});

it('is queried by the programs that resolve names, where most clusters have it', async () => {
  const askers = askersIn(await helm.render());
  expect([...askers.keys()].toSorted()).toEqual([
    'db-broker',
    'egress',
    'home-console',
    'home-operator',
    'home-uninstall-guard',
    'objectstore-broker',
  ]);
  for (const rule of askers.values())
    expect(rule).toEqual({ to: [pods('kube-system', { 'k8s-app': 'kube-dns' })], ports: onPort(53) });
});

it('is only where you set it: OpenShift’s', async () => {
  const label = 'dns\\.operator\\.openshift\\.io/daemonset-dns';
  const at = ['namespace=openshift-dns', `podLabels.${label}=default`, 'ports={5353}'];
  const askers = askersIn(await helm.render(...set(...at.map((value) => `network.dns.${value}`))), 5353);
  expect(askers.size).toBe(6);
  const labels = { 'dns.operator.openshift.io/daemonset-dns': 'default' };
  for (const rule of askers.values())
    expect(rule).toEqual({ to: [pods('openshift-dns', labels)], ports: onPort(5353) });
});

it('is a cache on each node, too, by its address of either family', async () => {
  const cidrs = ['169.254.20.10/32', 'fd00:20::10/128'];
  const askers = askersIn(await helm.render(...set(`network.dns.cidrs={${cidrs}}`)));
  for (const { to } of askers.values())
    expect(to?.slice(1)).toEqual(cidrs.map((cidr) => ({ ipBlock: { cidr } })));
});
