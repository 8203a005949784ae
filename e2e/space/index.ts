/** A Space on a cluster for `npm run up` and the suites: cluster, images, release. */
import { type BringUp, bringUp, type Cluster } from '../cluster/index.ts';
import { IMAGE_SOURCES, referenceOf } from './images.ts';
import { createKube, type Kube } from './kube.ts';
import { imageOf, installRelease, type Release, type ReleaseExtras } from './release.ts';

export { withClient } from './client.ts';
export { closingText } from './closing.ts';
export { applyExamples, runDemo, waitReady } from './example.ts';

/** The images of the servers that a release runs where it is given none. */
export type EngineImages = Readonly<Record<'postgres' | 's3', string>>;

interface RunningSpace extends Release {
  readonly cluster: Cluster;
  readonly kube: Kube;
  readonly kubectl: string;
  /** The image of the example Assistant, under the cluster's name for it. */
  readonly ledgerImage: string;
  readonly engineImages: EngineImages;
}

/** `prepare` may start, before there is a Space, what its release is to use. */
export async function bringUpSpace(
  options: Omit<BringUp, 'images'> & Release,
  prepare?: (kube: Kube, images: EngineImages) => Promise<ReleaseExtras>,
): Promise<RunningSpace> {
  const { space, namespace, ...clusterOptions } = options;
  const { steps } = clusterOptions;
  const cluster = await bringUp({ ...clusterOptions, images: IMAGE_SOURCES });
  const kubectl = await cluster.tool('kubectl');
  const kube = createKube(kubectl, cluster.kubeconfig);
  const references = await cluster.loadImages(IMAGE_SOURCES, steps);
  const [postgres, s3] = [imageOf(references, 'postgres.image'), imageOf(references, 's3.image')];
  const engineImages = { postgres, s3 };
  const more = await prepare?.(kube, engineImages);
  await steps.run(`Space ${space}`, (step) =>
    installRelease(cluster, kube, { space, namespace }, references, step, more),
  );
  const ledgerImage = referenceOf(references, 'ledger');
  return { cluster, kube, kubectl, space, namespace, ledgerImage, engineImages };
}
