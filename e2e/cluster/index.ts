/**
 * A real Kubernetes cluster, whichever way it is to be had: yours (`kubeconfig`), kind in a Docker engine (`kind`),
 * or one node built from Go modules in namespaces of this machine (`native`).
 */
import type { BringUp, Cluster, TakeDown } from './model.ts';
import * as native from './native/provider.ts';

export type {
  BringUp,
  Cluster,
  ImageSource,
  NodeAccess,
  OutsideConnection,
  OutsideHost,
  Provider,
  TakeDown,
  Tool,
} from './model.ts';

/** Brings up what is missing of the cluster `name` and answers when its node is Ready. */
export async function bringUp(options: BringUp): Promise<Cluster> {
  return native.bringUp(options);
}

/** The cluster `name` when it is running. */
export async function openCluster(name: string): Promise<Cluster | undefined> {
  return native.open(name);
}

/** Ends what `bringUp` started, and nothing else. */
export async function takeDown(name: string, options: TakeDown): Promise<void> {
  return native.takeDown(name, options);
}
