/**
 * A real Kubernetes cluster, whichever way it is to be had: yours (`kubeconfig`), kind in a Docker engine (`kind`),
 * or one node built from Go modules in namespaces of this machine (`native`).
 */
import { dockerAnswers } from './docker.ts';
import * as kind from './kind.ts';
import * as yours from './kubeconfig.ts';
import type { BringUp, Cluster, Provider, TakeDown } from './model.ts';
import * as native from './native/provider.ts';
import { removeRecord } from './record.ts';

export type {
  BringUp,
  Cluster,
  ImageSource,
  OutsideHost,
  TakeDown,
  Tool,
} from './model.ts';
export { S3_SERVER } from './native/images.ts';
export { DEFAULT_CLUSTER } from './record.ts';

const providers = { kubeconfig: yours, kind, native };

/** Brings up what is missing of the cluster `name` and answers when its node is Ready. */
export async function bringUp(options: BringUp): Promise<Cluster> {
  return providers[await choose(options)].bringUp(options);
}

async function choose({ provider, kubeconfig, name }: BringUp): Promise<Provider> {
  if (provider !== undefined) return provider;
  if (kubeconfig !== undefined) return 'kubeconfig';
  const running = await openCluster(name);
  if (running?.provider === 'kind' || running?.provider === 'native') return running.provider;
  return (await dockerAnswers()) ? 'kind' : 'native';
}

/** The cluster `name` when it is running. */
export async function openCluster(name: string): Promise<Cluster | undefined> {
  return (await native.open(name)) ?? (await kind.open(name)) ?? (await yours.open(name));
}

/** Ends what `bringUp` started, and nothing else: a cluster that was yours is only forgotten. */
export async function takeDown(name: string, options: TakeDown): Promise<void> {
  const running = await openCluster(name);
  if (running?.provider === 'kubeconfig') return removeRecord(name);
  if (running?.provider === 'kind') return kind.takeDown(name, options);
  return native.takeDown(name, options);
}
