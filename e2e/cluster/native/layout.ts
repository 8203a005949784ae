import { join } from 'node:path';

/** One node, and the paths of all its files, which are in one directory on this machine's disk. */
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
  /** The file with the identity of the process in whose namespaces the node runs. */
  readonly nodeIdentity: string;
  /** The file in which the supervisor records the state of its components. */
  readonly componentStatus: string;
}

const ROOT = '/var/lib/space';

/** The first node, which every cluster has. */
export function layoutOf(name: string): Layout {
  const addresses = { address: NETWORK.node, pods: podsOf(1) };
  return { ...directories(join(ROOT, name)), ...addresses, index: 1, node: name, cgroup: `/space.${name}` };
}

/** One of the cluster's nodes. A further node shares the cluster's programs, and has everything else of its own. */
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

/** Addresses inside the nodes' network namespaces, which are the same for every cluster, since none sees another. */
export const NETWORK = {
  /** The bridge in the first node, and the device of every further one, which is connected to it. */
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

/** Kubernetes by itself gives the first range to the first node. */
function podsOf(index: number): string {
  return `10.244.${index - 1}.0/24`;
}

/** The addresses would allow more; this number has been tried. */
export const MAX_NODES = 9;

/** Local volumes of each node. */
export const VOLUMES = 12;
