import { join } from 'node:path';

/** One node, and where it keeps everything it has: one directory, on this machine's disk. */
export interface Layout extends Directories {
  /** Its name in Kubernetes. */
  readonly node: string;
  /** 1 is the node with the control plane, whose directory is the cluster's. */
  readonly index: number;
  readonly address: string;
  /** The addresses of its pods. */
  readonly pods: string;
  /** Parent of its pods' cgroups, in each hierarchy. */
  readonly cgroup: string;
}

interface Directories {
  readonly state: string;
  readonly record: string;
  readonly kubeconfig: string;
  readonly run: string;
  readonly log: string;
  readonly etc: string;
  readonly pki: string;
  readonly bin: string;
  readonly volumes: string;
  readonly containerdSocket: string;
  /** The process in whose namespaces the node lives. */
  readonly nodeIdentity: string;
  /** What the supervisor last told of its components. */
  readonly componentStatus: string;
}

const ROOT = '/var/lib/space';

/** The node that every cluster has. */
export function layoutOf(name: string): Layout {
  const addresses = { address: NETWORK.node, pods: podsOf(1) };
  return { ...directories(join(ROOT, name)), ...addresses, index: 1, node: name, cgroup: `/space.${name}` };
}

/** One of the cluster's nodes. A further one has the cluster's programs, and all else for itself. */
export function nodeLayout(name: string, index: number): Layout {
  const first = layoutOf(name);
  if (index === 1) return first;
  return {
    ...directories(join(first.state, 'nodes', String(index))),
    bin: first.bin,
    index,
    node: `${name}-${index}`,
    address: `10.250.0.${9 + index}`,
    pods: podsOf(index),
    cgroup: `/space.${name}.${index}`, // no cluster's name has a dot
  };
}

/** All nodes of a cluster, the first one first. */
export const nodeLayouts = (name: string, nodes: number): readonly [Layout, ...Layout[]] => [
  layoutOf(name),
  ...Array.from({ length: nodes - 1 }, (_, index) => nodeLayout(name, index + 2)),
];

function directories(state: string): Directories {
  const run = join(state, 'run');
  return {
    state,
    record: join(state, 'cluster.json'),
    kubeconfig: join(state, 'kubeconfig'),
    run,
    log: join(state, 'log'),
    etc: join(state, 'etc'),
    pki: join(state, 'pki'),
    bin: join(state, 'bin'),
    volumes: join(state, 'volumes'),
    containerdSocket: join(run, 'containerd.sock'),
    nodeIdentity: join(run, 'node.json'),
    componentStatus: join(run, 'components.json'),
  };
}

/** Addresses inside the nodes' network namespaces: every cluster has the same, since none sees another. */
export const NETWORK = {
  /** The bridge in the first node, and the device of every further one, which leads to it. */
  bridge: 'node0',
  node: '10.250.0.10',
  services: '10.96.0.0/16',
  api: '10.96.0.1',
  dns: '10.96.0.10',
  pods: '10.244.0.0/16',
  /** The gateway that Calico gives every pod. */
  gateway: '169.254.1.1',
  apiPort: 6443,
} as const;

/** Kubernetes gives the first range to the first node by itself. */
function podsOf(index: number): string {
  return `10.244.${index - 1}.0/24`;
}

/** More would fit the addresses; so many have been tried. */
export const MAX_NODES = 9;

/** Local volumes of each node. */
export const VOLUMES = 12;
