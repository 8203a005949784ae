/** A Space on a cluster, as `npm run up` and the suites have it: cluster, images, release. */
import { type BringUp, bringUp, type Cluster } from '../cluster/index.ts';
import { IMAGE_SOURCES, referenceOf } from './images.ts';
import { createKube, type Kube } from './kube.ts';
import { installRelease, type Release } from './release.ts';

export { withClient } from './client.ts';
export { closing } from './closing.ts';
export { applyExamples, tellStory, waitReady } from './example.ts';

interface RunningSpace extends Release {
  readonly cluster: Cluster;
  readonly kube: Kube;
  readonly kubectl: string;
  /** Image of the example Assistant, as the cluster knows it. */
  readonly ledgerImage: string;
}

export async function bringUpSpace(options: Omit<BringUp, 'images'> & Release): Promise<RunningSpace> {
  const { space, namespace, ...clusterOptions } = options;
  const { steps } = clusterOptions;
  const cluster = await bringUp({ ...clusterOptions, images: IMAGE_SOURCES });
  const kubectl = await cluster.tool('kubectl');
  const kube = createKube(kubectl, cluster.kubeconfig);
  const references = await cluster.loadImages(IMAGE_SOURCES, steps);
  await steps.run(`Space ${space}`, (step) =>
    installRelease(cluster, kube, { space, namespace }, references, step),
  );
  return { cluster, kube, kubectl, space, namespace, ledgerImage: referenceOf(references, 'ledger') };
}
