/**
 * A real Kubernetes cluster from one of three providers: yours (`kubeconfig`), kind in a Docker engine (`kind`), or
 * nodes built from Go modules in namespaces of this machine (`native`).
 */
import * as kind from './kind/provider.ts';
import * as yours from './kubeconfig.ts';
import type { BringUp, Cluster, Provider, TakeDown } from './model.ts';
import * as native from './native/provider.ts';
import { readRecord, removeRecord } from './record.ts';

export { type ArchivedImage, writeAirGap } from './air-gap.ts';
export type {
  BringUp,
  Cluster,
  ImageSource,
  OutsideHost,
  TakeDown,
  Tool,
} from './model.ts';
export { S3_SERVER } from './native/images.ts';
export { MAX_NODES } from './native/layout.ts';
export { isPlatform, OWN, PLATFORMS, type Platform } from './platform.ts';
export { DEFAULT_CLUSTER } from './record.ts';

const providers = { kubeconfig: yours, kind, native };

/** Brings up what is missing of the cluster `name`, and resolves when its node is Ready. */
export async function bringUp(options: BringUp): Promise<Cluster> {
  return providers[await choose(options)].bringUp(options);
}

/** The provider of the cluster `name`, or the one that it would get. */
export async function choose({
  provider,
  kubeconfig,
  name,
}: Pick<BringUp, 'provider' | 'kubeconfig' | 'name'>): Promise<Provider> {
  if (provider !== undefined) return provider;
  if (kubeconfig !== undefined) return 'kubeconfig';
  const running = await openCluster(name);
  if (running?.provider === 'kind' || running?.provider === 'native') return running.provider;
  return (await kind.engineServes()) ? 'kind' : 'native';
}

/**
 * The cluster `name` if it is running. A kind cluster of this checkout comes first, since a native one belongs to the
 * whole machine.
 */
export async function openCluster(name: string): Promise<Cluster | undefined> {
  return (await kind.open(name)) ?? (await native.open(name)) ?? (await yours.open(name));
}

/** Ends what `bringUp` started, and nothing else: your own cluster is only forgotten. */
export async function takeDown(name: string, options: TakeDown): Promise<void> {
  const provider = (await readRecord(name))?.provider;
  if (provider === 'kind') return kind.takeDown(name, options);
  if ((await native.open(name)) !== undefined) return native.takeDown(name, options);
  if (provider === 'kubeconfig') return removeRecord(name);
  // A cluster of another checkout, or one whose record is lost, is found by asking the engine.
  if (!native.exists(name) && (await kind.exists(name))) return kind.takeDown(name, options);
  return native.takeDown(name, options);
}
