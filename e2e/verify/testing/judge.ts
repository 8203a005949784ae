/** What NetworkPolicies allow according to Kubernetes' documentation: a correct plugin, without a cluster. */
import { within } from '../blocks.ts';

type Labels = Readonly<Record<string, string>>;

interface Selector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}

interface Peer {
  readonly namespaceSelector?: Selector;
  readonly podSelector?: Selector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

interface Rule {
  readonly from?: readonly Peer[];
  readonly to?: readonly Peer[];
  readonly ports?: readonly { readonly port: number; readonly protocol?: string }[];
}

export interface Policy {
  readonly name: string;
  readonly namespace: string;
  readonly spec: {
    readonly podSelector: Selector;
    readonly policyTypes: readonly string[];
    readonly ingress?: readonly Rule[];
    readonly egress?: readonly Rule[];
  };
}

/** A pod, or something else that has only an address. */
export interface Endpoint {
  readonly namespace?: { readonly name: string; readonly labels: Labels };
  readonly labels?: Labels;
  readonly address?: string;
}

function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      if (operator === 'Exists') return key in labels;
      if (operator === 'In') return values.includes(labels[key] ?? '');
      throw new Error(`the operator ${operator} of a label selector is not supported`);
    })
  );
}

function isPeer(peer: Peer, policy: Policy, end: Endpoint): boolean {
  if (peer.ipBlock)
    return (
      end.address !== undefined &&
      within(peer.ipBlock.cidr, end.address) &&
      !(peer.ipBlock.except ?? []).some((cidr) => within(cidr, end.address ?? ''))
    );
  if (end.namespace === undefined || end.labels === undefined) return false;
  const home = peer.namespaceSelector
    ? selects(peer.namespaceSelector, {
        ...end.namespace.labels,
        'kubernetes.io/metadata.name': end.namespace.name,
      })
    : end.namespace.name === policy.namespace;
  return home && selects(peer.podSelector ?? {}, end.labels);
}

function passes(
  policies: readonly Policy[],
  type: 'Ingress' | 'Egress',
  pod: Endpoint,
  other: Endpoint,
  protocol: string,
  port: number,
): boolean {
  const { namespace, labels } = pod;
  if (namespace === undefined || labels === undefined) return true;
  const held = policies.filter(
    (policy) =>
      policy.namespace === namespace.name &&
      policy.spec.policyTypes.includes(type) &&
      selects(policy.spec.podSelector, labels),
  );
  if (held.length === 0) return true;
  return held.some((policy) =>
    (type === 'Ingress' ? policy.spec.ingress : policy.spec.egress)?.some((rule) => {
      const peers = type === 'Ingress' ? rule.from : rule.to;
      return (
        (rule.ports === undefined ||
          rule.ports.some((open) => open.port === port && (open.protocol ?? 'TCP') === protocol)) &&
        (peers === undefined || peers.some((peer) => isPeer(peer, policy, other)))
      );
    }),
  );
}

/** Whether the policies allow a connection both at its source and at its target. */
export const policiesAllow = (
  policies: readonly Policy[],
  from: Endpoint,
  to: Endpoint,
  protocol: string,
  port: number,
): boolean =>
  passes(policies, 'Egress', from, to, protocol, port) &&
  passes(policies, 'Ingress', to, from, protocol, port);
