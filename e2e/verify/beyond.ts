/**
 * Targets around a Space that are none of its pods: the cluster's DNS, the API server, nodes, metadata, the outside.
 */
import type { KubeObject } from '../space/kube-object.ts';
import type { Protocol } from './arrows.ts';
import { addressesOf, type Discovered, portsOf, shown } from './discover.ts';
import type { Place, Target } from './matrix.ts';

const DNS_PORT = 53;
/** Other ports at which DNS servers listen: over TLS, for their neighbours, and in OpenShift. */
const OTHER_DNS_PORTS = [DNS_PORT, 853, 5353];
const METADATA = ['169.254.169.254', 'fd00:ec2::254'];

function at(
  to: Place,
  name: string,
  address: string,
  port: number,
  protocol: Protocol = 'tcp',
  ends: Target['ends'] = [{ address, port }],
): Target {
  const where = `${protocol}${port === 0 ? '' : ` ${port}`}`;
  return { name: `${name} ${shown(address)}${where}`, to, protocol, address, port, ends };
}

/** `outside` are addresses beyond the cluster at which something answers. */
export function targetsBeyond(
  around: Discovered,
  outside: readonly { readonly address: string; readonly port: number }[],
): Target[] {
  const { pods, nodes, apiServer, apiServerEnds } = around;
  const six = pods.some((pod) => addressesOf(pod).some((address) => address.includes(':')));
  const inNodes = nodes.flatMap(({ metadata, status }) =>
    status.addresses
      .filter(({ type }: { type: string }) => type === 'InternalIP')
      .map(({ address }: { address: string }) => ({ name: `node ${metadata.name}`, address })),
  );
  return [
    ...targetsAtDns(around),
    ...clusterIPs(apiServer).map((address) =>
      at('API server', 'Service kubernetes', address, 443, 'tcp', apiServerEnds),
    ),
    ...apiServerEnds.map(({ address, port }) => at('API server', 'API server', address, port)),
    ...inNodes.flatMap(({ name, address }) => [
      at('node', name, address, 10250),
      at('node', name, address, 22),
      at('node', name, address, 0, 'icmp'),
    ]),
    ...METADATA.filter((address) => six || !address.includes(':')).map((address) =>
      at('metadata', 'metadata', address, 80),
    ),
    ...outside.map(({ address, port }) => at('outside', 'outside', address, port)),
  ];
}

/**
 * The DNS Services at each of their ports, and their pods at the port that answers queries and at every other one.
 */
function targetsAtDns({ dns: { services, pods } }: Pick<Discovered, 'dns'>): Target[] {
  const place = (serves: boolean): Place => (serves ? 'dns' : 'other ports of dns');
  const ofServices = services.flatMap((service) =>
    clusterIPs(service).flatMap((address) =>
      servicePorts(service).map(({ port, protocol }) =>
        at(place(port === DNS_PORT), 'DNS', address, port, lower(protocol)),
      ),
    ),
  );
  const ofPods = pods.flatMap((pod) => {
    const serving = new Set(services.flatMap((service) => servingPorts(service, pod)));
    const others = [...new Set([...OTHER_DNS_PORTS, ...portsOf(pod), ...probePorts(pod)])].filter(
      (port) => !serving.has(port),
    );
    const name = `pod ${pod.metadata.name}`;
    return addressesOf(pod).flatMap((address) => [
      ...both([...serving]).map(([port, protocol]) => at(place(true), name, address, port, protocol)),
      ...both(others).map(([port, protocol]) => at(place(false), name, address, port, protocol)),
    ]);
  });
  return [...ofServices, ...ofPods];
}

const both = (ports: readonly number[]) =>
  ports.flatMap((port) => (['udp', 'tcp'] as const).map((protocol) => [port, protocol] as const));

interface ServicePort {
  readonly port: number;
  readonly targetPort?: number | string;
  readonly protocol?: string;
}

const lower = (protocol = 'TCP') => protocol.toLowerCase() as Protocol;
const servicePorts = (service: KubeObject): readonly ServicePort[] => service['spec'].ports ?? [];
const clusterIPs = (service: KubeObject | undefined): string[] =>
  (service?.['spec'].clusterIPs ?? []).filter((address: string) => address !== 'None');

/** The ports of this pod that the Service's port leads to. */
const servingPorts = (service: KubeObject, pod: KubeObject): number[] =>
  servicePorts(service)
    .filter(({ port }) => port === DNS_PORT)
    .flatMap(({ port, targetPort = port }) =>
      typeof targetPort === 'number' ? [targetPort] : portsOf(pod, targetPort),
    );

/** Health checks use ports that a pod need not name. */
const probePorts = (pod: KubeObject): number[] =>
  pod['spec'].containers
    .flatMap(({ livenessProbe, readinessProbe }: Record<string, { httpGet?: { port: unknown } }>) => [
      livenessProbe?.httpGet?.port,
      readinessProbe?.httpGet?.port,
    ])
    .filter((port: unknown) => typeof port === 'number');
