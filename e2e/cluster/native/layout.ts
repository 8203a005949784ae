import { join } from 'node:path';

/** Where a native cluster keeps everything it has: one directory, on this machine's disk. */
export interface Layout {
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

export function layoutOf(name: string, root: string = ROOT): Layout {
  const state = join(root, name);
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

/** Addresses inside the node's network namespace: every cluster has the same, since none sees another. */
export const NETWORK = {
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

export const VOLUMES = 12;

/** Parent of every pod's cgroup, in each hierarchy. */
export const cgroupOf = (name: string) => `/space.${name}`;
