import type { Steps } from '../progress/index.ts';

export type Provider = 'kubeconfig' | 'kind' | 'native';
export type Tool = 'kubectl' | 'helm';

/** An image of this repository: an ordinary Dockerfile and the directory that it copies from. */
export interface ImageSource {
  /** Without host and tag, for example `space/operator`. The tag is the hash of the image's sources. */
  readonly name: string;
  /** A further tag, which people write by hand. */
  readonly alias?: string;
  readonly dockerfile: string;
  readonly context: string;
  /** Fills `context` (for instance with a bundle) before the build; called once, before the hash is computed. */
  readonly buildContext?: () => Promise<void>;
}

export interface BringUp {
  readonly name: string;
  /**
   * By default `kubeconfig` if one is given, `kind` if this machine has a Docker engine that can run a cluster,
   * otherwise `native`.
   */
  readonly provider?: Provider;
  readonly kubeconfig?: string;
  /**
   * Loopback port of the API server (native: 17443, and each further cluster of this machine needs another; kind:
   * any).
   */
  readonly apiPort?: number;
  /** The number of nodes of a native cluster; by default as many as it had, or one. */
  readonly nodes?: number;
  /** The registry from which `kubeconfig` clusters pull images, for example `registry.example.com/team`. */
  readonly imageRegistry?: string;
  /** Images that are built while the cluster comes up, so that `loadImages` only has to load them. */
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
  /** Builds missing images and loads all onto the nodes; returns references for chart values by image name. */
  loadImages(images: readonly ImageSource[], steps: Steps): Promise<ReadonlyMap<string, string>>;
  /** Access to a node, which tests have only on native and kind clusters. */
  readonly node?: NodeAccess;
  /** The nodes after the first, which has the control plane. */
  readonly furtherNodes?: readonly FurtherNode[];
}

export interface FurtherNode {
  readonly name: string;
  command: NodeAccess['command'];
  /** Ends all its processes at once, as a power failure would. The next `bringUp` starts it again. */
  end(): Promise<void>;
  /** Removes gVisor from the node until it is started again. */
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
  /** TCP ports on which it answers HTTP. */
  readonly ports: readonly number[];
  /** One of the ports speaks TLS. */
  readonly tls?: OutsideTls;
  /** UDP ports on which it returns what it receives. */
  readonly udp?: readonly number[];
  /** Answers at these paths to requests with this header; other requests are answered with the caller's address. */
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
  /** The address at which clouds give a machine its credentials; it listens there on port 80. */
  readonly metadata: string;
  /** Every TCP connection that has arrived so far. */
  connections(): Promise<readonly OutsideConnection[]>;
  /** Every HTTP request, including each that was answered. */
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
