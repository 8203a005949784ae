/** Finds what a cluster has of a Space and around it: which pods try connections, and to which targets. */
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import type { Party, Picture, Protocol } from './arrows.ts';
import type { Block } from './blocks.ts';
import type { Source, Target } from './matrix.ts';
import { pluginsOf } from './plugins.ts';

export const COMPONENT = 'platform.space/component';

/**
 * Components whose pods are permanent. Those of keys, uninstall-guard and backup are not, so bystanders with their
 * labels replace them.
 */
const PARTS: readonly string[] = [
  'operator',
  'console',
  'db-broker',
  'objectstore-broker',
  'egress',
  'postgres',
  's3',
  'canary',
] satisfies Party[];
const isPart = (component: string | undefined): component is Party =>
  component !== undefined && PARTS.includes(component);

export interface Discovered {
  readonly space: string;
  readonly picture: Picture;
  readonly pods: readonly KubeObject[];
  readonly services: readonly KubeObject[];
  readonly nodes: readonly KubeObject[];
  readonly policies: readonly KubeObject[];
  /** The cluster's DNS: its Services and their pods. */
  readonly dns: { readonly services: readonly KubeObject[]; readonly pods: readonly KubeObject[] };
  readonly apiServer: KubeObject | undefined;
  /** The addresses behind the API server's Service. */
  readonly apiServerEnds: readonly { readonly address: string; readonly port: number }[];
  readonly kubernetes: string;
  /** The network plugins, with their versions. */
  readonly plugins: readonly string[];
}

async function json(kube: Kube, args: readonly string[]) {
  const { code, stdout, stderr } = await kube.run([...args, '-o', 'json']);
  if (code !== 0) throw new Error(stderr.trim());
  return JSON.parse(stdout);
}

export async function discover(kube: Kube, space: string): Promise<Discovered> {
  const places = [`${space}-system`, `${space}-services`];
  const all = async (kind: string) =>
    (await Promise.all(places.map((place) => kube.list(kind, place)))).flat();
  const ofDns = (kind: string) => kube.list(kind, 'kube-system', 'k8s-app=kube-dns');
  const [pods, services, policies, nodes, slices, version, dns, dnsPods, apiServer, agents, backup] =
    await Promise.all([
      all('pods'),
      all('services'),
      all('networkpolicies'),
      json(kube, ['get', 'nodes']),
      json(kube, ['get', 'endpointslices', '-n', 'default', '-l', 'kubernetes.io/service-name=kubernetes']),
      json(kube, ['version']),
      ofDns('services'),
      ofDns('pods'),
      kube.get('service', 'kubernetes', 'default'),
      json(kube, ['get', 'daemonsets', '--all-namespaces']),
      kube.get('cronjob', 'backup', `${space}-services`),
    ]);
  const running = pods.filter(
    ({ status, metadata }) =>
      status?.phase === 'Running' &&
      metadata.deletionTimestamp === undefined &&
      isPart(metadata.labels?.[COMPONENT]),
  );
  if (running.length === 0) throw new Error(`no pod of a Space "${space}" runs in ${places.join(' and ')}`);
  return {
    space,
    pods: running,
    services,
    policies,
    picture: { backup: backup !== undefined },
    dns: { services: dns, pods: dnsPods.filter(({ status }) => status?.phase === 'Running') },
    apiServer,
    nodes: nodes.items,
    apiServerEnds: slices.items.flatMap((slice: KubeObject) =>
      slice['endpoints'].flatMap(({ addresses }: { addresses: string[] }) =>
        addresses.map((address) => ({ address, port: slice['ports'][0].port })),
      ),
    ),
    kubernetes: version.serverVersion.gitVersion,
    plugins: pluginsOf(agents.items, await calico(kube)),
  };
}

/** Reads the version that Calico writes into the cluster, even if no pod runs it. */
async function calico(kube: Kube): Promise<string | undefined> {
  const { code, stdout } = await kube.run([
    ...['get', 'clusterinformations.crd.projectcalico.org', 'default', '--ignore-not-found'],
    ...['-o', 'jsonpath={.spec.calicoVersion}'],
  ]);
  return code === 0 && stdout !== '' ? stdout : undefined;
}

export const addressesOf = (pod: KubeObject): string[] =>
  (pod['status']?.podIPs ?? []).map(({ ip }: { ip: string }) => ip);

const partOf = (pod: KubeObject) => pod.metadata.labels?.[COMPONENT] as Party;
/** Names a pod after its component, with the pod's own name if there are several. */
const nameOf = (pod: KubeObject, pods: readonly KubeObject[]) => {
  const same = pods.filter((other) => partOf(other) === partOf(pod));
  return same.length === 1 ? partOf(pod) : `${partOf(pod)} ${same.indexOf(pod) + 1}`;
};

/** The address blocks to which a component's own policies let it connect. */
export function blocksOf(component: string, policies: readonly KubeObject[]): Block[] {
  const own = policies.filter(({ spec }) => spec?.podSelector?.matchLabels?.[COMPONENT] === component);
  return own
    .flatMap(({ spec }) => spec.egress ?? [])
    .flatMap(({ to = [], ports = [] }) =>
      to.flatMap(({ ipBlock }: { ipBlock?: { cidr: string; except?: string[] } }) =>
        ipBlock === undefined
          ? []
          : [
              {
                cidr: ipBlock.cidr,
                except: ipBlock.except ?? [],
                ports: ports.map(({ port, protocol = 'TCP' }: { port: number; protocol?: string }) => ({
                  port,
                  protocol: protocol.toLowerCase() as Protocol,
                })),
              },
            ],
      ),
    );
}

export type SourcePod = Source & { readonly pod: KubeObject };

export const sourcesOf = ({ pods, policies }: Discovered): SourcePod[] =>
  pods.map((pod) => ({
    name: nameOf(pod, pods),
    party: partOf(pod),
    addresses: addressesOf(pod),
    blocks: blocksOf(partOf(pod), policies),
    ...(partOf(pod) === 'canary' ? { speaks: ['tcp', 'udp'] as const } : {}),
    pod,
  }));

interface ContainerPort {
  readonly name?: string;
  readonly containerPort: number;
  readonly protocol?: string;
}

const portsWhere = (pod: KubeObject, wanted: (port: ContainerPort) => boolean): number[] =>
  pod['spec'].containers
    .flatMap(({ ports = [] }: { ports?: readonly ContainerPort[] }) => ports)
    .filter(wanted)
    .map(({ containerPort }: ContainerPort) => containerPort);

/** Ports that its containers name, or only those with one name. */
export const portsOf = (pod: KubeObject, only?: string): number[] =>
  portsWhere(pod, ({ name }) => only === undefined || name === only);

const protocolOf = ({ protocol = 'TCP' }: { readonly protocol?: string }) =>
  protocol.toLowerCase() as Protocol;

export const shown = (address: string) => (address.includes(':') ? 'IPv6 ' : '');

/** A pod over each protocol, at each port that it names; over UDP also at its first TCP port. */
export function targetsAtPod(
  name: string,
  to: Party,
  pod: KubeObject,
  ports: readonly number[],
  udp: readonly number[] = [],
): Target[] {
  return addressesOf(pod).flatMap((address) => {
    const at = (protocol: Protocol, port: number): Target => ({
      name: `${name} ${shown(address)}${protocol}${port === 0 ? '' : ` ${port}`}`,
      to,
      protocol,
      address,
      port,
      ends: [{ address, port }],
    });
    const [first = 0] = ports;
    return [
      ...ports.map((port) => at('tcp', port)),
      ...[first, ...udp].map((port) => at('udp', port)),
      at('icmp', 0),
    ];
  });
}

/** Every pod and every Service of the Space. */
export const targetsInside = (around: Discovered): Target[] => [
  ...sourcesOf(around).flatMap(({ name, party, pod }) => {
    const [tcp, udp] = (['tcp', 'udp'] as const).map((protocol) =>
      portsWhere(pod, (port) => protocolOf(port) === protocol),
    );
    return targetsAtPod(name, party, pod, tcp ?? [], udp);
  }),
  ...targetsAtServices(around),
];

interface ServicePort {
  readonly port: number;
  readonly targetPort?: number | string;
  readonly protocol?: string;
}

/** Targets at Services with pods of the Space behind them. */
function targetsAtServices({ services, pods }: Discovered): Target[] {
  return services.flatMap(({ metadata, spec }) => {
    const behind = pods.filter(
      ({ metadata: { namespace, labels = {} } }) =>
        namespace === metadata.namespace &&
        spec.selector !== undefined &&
        Object.entries(spec.selector).every(([key, value]) => labels[key] === value),
    );
    const [first] = behind;
    if (first === undefined) return [];
    const addresses: string[] = (spec.clusterIPs ?? []).filter((address: string) => address !== 'None');
    return addresses.flatMap((address) =>
      spec.ports.map(({ port, targetPort = port, ...rest }: ServicePort): Target => {
        const ends = behind.flatMap((pod) => {
          const reached = typeof targetPort === 'number' ? targetPort : (portsOf(pod, targetPort)[0] ?? port);
          return addressesOf(pod).map((at) => ({ address: at, port: reached }));
        });
        const protocol = protocolOf(rest);
        const name = `Service ${metadata.name} ${shown(address)}${protocol} ${port}`;
        return { name, to: partOf(first), protocol, address, port, ends };
      }),
    );
  });
}
