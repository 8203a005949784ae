/**
 * Kinds of network plugins and of the Gateway API, which the chart's policies name and no API server has by default.
 */
export const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
/** Kinds of network plugins, whose policies apply in addition to those of Kubernetes. */
export const FOREIGN_WALLS = [
  ['crd.projectcalico.org', 'networkpolicies', 'NetworkPolicy'],
  ['crd.projectcalico.org', 'networksets', 'NetworkSet'],
  ['projectcalico.org', 'networkpolicies', 'NetworkPolicy'],
  ['crd.antrea.io', 'networkpolicies', 'NetworkPolicy'],
  ['cilium.io', 'ciliumnetworkpolicies', 'CiliumNetworkPolicy'],
  ['cilium.io', 'ciliumlocalredirectpolicies', 'CiliumLocalRedirectPolicy'],
  ['cilium.io', 'ciliumenvoyconfigs', 'CiliumEnvoyConfig'],
] as const;
const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
export const definition = (group: string, plural: string, kind: string) => ({
  metadata: {
    name: `${plural}.${group}`,
    annotations: { 'api-approved.kubernetes.io': 'unapproved, a test' },
  },
  spec: {
    group,
    scope: 'Namespaced',
    names: { plural, kind },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: anything } }],
  },
});

/** Kinds that make a Service reachable from outside. */
export const ROUTES = [
  ['gateway.networking.k8s.io', 'httproutes', 'HTTPRoute'],
  ['gateway.networking.k8s.io', 'grpcroutes', 'GRPCRoute'],
  ['gateway.networking.k8s.io', 'tlsroutes', 'TLSRoute'],
  ['gateway.networking.k8s.io', 'tcproutes', 'TCPRoute'],
  ['gateway.networking.k8s.io', 'udproutes', 'UDPRoute'],
  ['gateway.networking.k8s.io', 'referencegrants', 'ReferenceGrant'],
] as const;
