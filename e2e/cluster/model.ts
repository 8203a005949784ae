import type { Steps } from '../progress/index.ts';

export type Provider = 'kubeconfig' | 'kind' | 'native';
export type Tool = 'kubectl' | 'helm';

/** An image of ours: an ordinary Dockerfile and the directory that it copies from. */
export interface ImageSource {
  /** Without host and tag, for example `space/operator`. The tag is the hash of what goes in. */
  readonly name: string;
  /** One more tag for it, which people write by hand. */
  readonly alias?: string;
  readonly dockerfile: string;
  readonly context: string;
  /** Fills `context` (a bundle, say) before the build; called once, before the hash is taken. */
  readonly buildContext?: () => Promise<void>;
}

export interface BringUp {
  readonly name: string;
  /** Left out: `kubeconfig` when one is given, `kind` when this machine has a Docker engine that can have one, else `native`. */
  readonly provider?: Provider;
  readonly kubeconfig?: string;
  /** Loopback port of the API server (native: 17443, and another cluster on this machine needs another; kind: any). */
  readonly apiPort?: number;
  /** How many nodes a native cluster has; left out: as many as it had, or one. */
  readonly nodes?: number;
  /** Where `kubeconfig` clusters pull our images from, for example `registry.example.com/team`. */
  readonly imageRegistry?: string;
  /** Built while the cluster comes up, so that `loadImages` only has to bring them in. */
  readonly images?: readonly ImageSource[];
  readonly steps: Steps;
}

export interface TakeDown {
  /** Leaves the state on disk, so that the next `bringUp` finds images, objects and data again. */
  readonly keep?: boolean;
  readonly steps: Steps;
}

/** A running Kubernetes cluster with the RuntimeClass `gvisor`, NetworkPolicy enforced and a default StorageClass. */
export interface Cluster {
  readonly name: string;
  readonly provider: Provider;
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** Path of the program. */
  tool(name: Tool): Promise<string>;
  /** Builds what is not built, brings it to the nodes; answers image name → reference for chart values. */
  loadImages(images: readonly ImageSource[], steps: Steps): Promise<ReadonlyMap<string, string>>;
  /** What only a node of our own can give tests. */
  readonly node?: NodeAccess;
  /** The nodes after the first, which has the control plane. */
  readonly furtherNodes?: readonly FurtherNode[];
}

export interface FurtherNode {
  readonly name: string;
  command: NodeAccess['command'];
  /** Ends all its processes at once, as a loss of power would. The next `bringUp` starts it again. */
  end(): Promise<void>;
  /** Makes it a node that has no gVisor, until it is started again. */
  removeHandler(): Promise<void>;
}

interface NodeAccess {
  readonly name: string;
  /** Directory in the node with the API server's `audit.log`. */
  readonly auditLogs: string;
  /** The command that runs `argv` inside the node's namespaces, for `spawn` or `execFile`. */
  command(argv: readonly string[]): readonly [string, ...string[]];
  /** A host beyond the cluster, at addresses that node and pods have a route to. */
  outside(options: OutsideOptions): Promise<OutsideHost>;
}

export interface OutsideOptions {
  /** TCP ports, on which it speaks HTTP. */
  readonly ports: readonly number[];
  /** One of the ports speaks TLS. */
  readonly tls?: OutsideTls;
  /** Sends back what comes there. */
  readonly udp?: readonly number[];
  /** What it says at these paths to who shows this header; it tells everybody else who they are. */
  readonly answers?: Readonly<
    Record<string, { readonly header: readonly [string, string]; readonly body: string }>
  >;
}

/** PEM. */
export interface OutsideTls {
  readonly port: number;
  readonly cert: string;
  readonly key: string;
}

export interface OutsideHost extends AsyncDisposable {
  readonly addresses: readonly [string, string];
  /** Where clouds tell a machine its own credentials; it listens there on port 80. */
  readonly metadata: string;
  /** Every TCP connection that has arrived so far. */
  connections(): Promise<readonly OutsideConnection[]>;
  /** Every HTTP request; each that was answered is among them. */
  requests(): Promise<readonly OutsideRequest[]>;
}

export interface OutsideRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface OutsideConnection {
  readonly from: string;
  readonly to: string;
  readonly port: number;
}
