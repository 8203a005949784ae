import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Steps } from '../progress/index.ts';
import type { Image } from './images/archive.ts';
import { imageBuilder } from './images/builder.ts';
import { ociArchiveOf, ociDigest } from './images/oci.ts';
import type { ImageSource } from './model.ts';
import { ensureS3Server, S3_SERVER } from './native/images.ts';
import { ClusterProblem } from './problem.ts';
import { built, onPath } from './tools.ts';

/** An image in an archive. */
export interface Carried {
  /** Without tag: `space/operator`. */
  readonly name: string;
  /** By which the archive has it. */
  readonly reference: string;
  /** By which a registry has it that took it as it is. */
  readonly digest: string;
}

/** Builds `images` and the chart's S3 server, and writes all of them to one OCI archive. */
export async function writeAirGap(
  images: readonly ImageSource[],
  file: string,
  steps: Steps,
): Promise<readonly Carried[]> {
  if (onPath('buildah') === undefined || process.getuid?.() !== 0)
    throw new ClusterProblem(
      'Images are built without a registry by buildah, as root.',
      'Install buildah and debootstrap, and run this as root on Linux.',
    );
  const log = `${file}.log`;
  const made = await steps.run('build images', async (step) => {
    step.explain(log);
    const builder = imageBuilder(log, step.note);
    const own: (readonly [string, Image])[] = [];
    for (const image of images)
      own.push([image.name, await step.run(image.name, () => builder.ensure(image))]);
    const s3 = await step.run(S3_SERVER.name, () => ensureS3Server(builder, (part) => built(part, log)));
    return { store: builder.store, images: [...own, [S3_SERVER.name, s3] as const] };
  });
  await steps.run(`write ${file}`, async () => {
    // Half an archive must not look like one.
    const draft = `${file}.draft`;
    const whole = made.images.map(([, image]) => image);
    try {
      await pipeline(ociArchiveOf(whole, made.store.blobPath), createWriteStream(draft));
      await rename(draft, file);
    } finally {
      await rm(draft, { force: true });
    }
  });
  await rm(log, { force: true });
  return made.images.map(([name, image]) => ({
    name,
    reference: image.reference,
    digest: ociDigest(image),
  }));
}
