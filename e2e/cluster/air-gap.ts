import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Step, Steps } from '../progress/index.ts';
import type { Image } from './images/archive.ts';
import { imageBuilder } from './images/builder.ts';
import { ociArchiveOf, ociDigest, type Published } from './images/oci.ts';
import type { ImageStore } from './images/store.ts';
import type { ImageSource } from './model.ts';
import { ensureS3Server, S3_SERVER } from './native/images.ts';
import { installPackages } from './native/packages.ts';
import { missingOf } from './native/preflight.ts';
import { type Platform, packagesToBuild } from './platform.ts';
import { ClusterProblem } from './problem.ts';
import { built, onPath } from './tools.ts';

/** An image in an archive. */
export interface ArchivedImage {
  /** Without tag: `space/operator`. */
  readonly name: string;
  /** The image's reference in the archive. */
  readonly reference: string;
  /** The digest in a registry that received it unchanged: the image's, or the index's if there are several platforms. */
  readonly digest: string;
}

/** Builds `images` and the chart's S3 server for each of `platforms`, and writes all of them to one OCI archive. */
export async function writeAirGap(
  images: readonly ImageSource[],
  file: string,
  steps: Steps,
  platforms: readonly Platform[],
): Promise<readonly ArchivedImage[]> {
  if (process.getuid?.() !== 0)
    throw new ClusterProblem(
      'Images are built without a registry by buildah, as root.',
      'Run this as root on Linux.',
    );
  const log = `${file}.log`;
  const missing = missingOf(packagesToBuild(platforms));
  if (missing.length > 0)
    await steps.run(`apt install ${missing.join(' ')}`, (step) => bring(missing, log, step));
  const made: Made[] = [];
  for (const platform of platforms)
    made.push(
      await steps.run(`build images for ${platform}`, async (step) => {
        step.explain(log);
        return build(images, platform, log, step);
      }),
    );
  const published = together(made);
  await steps.run(`write ${file}`, () => write([...published.values()], made, file));
  await rm(log, { force: true });
  return [...published].map(([name, one]) => ({
    name,
    reference: one.reference,
    digest: ociDigest(one),
  }));
}

async function bring(missing: readonly string[], log: string, step: Step): Promise<void> {
  step.explain(log);
  if (onPath('apt-get') === undefined)
    throw new ClusterProblem(
      'Programs are missing, and there is no apt to bring them.',
      `Install what the Debian packages ${missing.join(', ')} have.`,
    );
  await installPackages(missing, log);
}

interface Made {
  readonly platform: Platform;
  readonly store: ImageStore;
  readonly images: ReadonlyMap<string, Image>;
}

async function build(
  images: readonly ImageSource[],
  platform: Platform,
  log: string,
  step: Step,
): Promise<Made> {
  const builder = imageBuilder(log, step.note, platform);
  const own = new Map<string, Image>();
  for (const image of images) own.set(image.name, await step.run(image.name, () => builder.ensure(image)));
  const program = (part: string) => built(part, log, platform);
  own.set(S3_SERVER.name, await step.run(S3_SERVER.name, () => ensureS3Server(builder, program)));
  return { platform, store: builder.store, images: own };
}

/** Each name once, with everything that was built under it. */
function together(made: readonly Made[]): ReadonlyMap<string, Published> {
  const published = new Map<string, Published>();
  for (const { platform, images } of made)
    for (const [name, image] of images) {
      const before = published.get(name);
      published.set(name, {
        reference: before === undefined ? image.reference : referenceOf(before.reference, image.reference),
        images: [...(before?.images ?? []), { platform, config: image.config, layers: image.layers }],
      });
    }
  return published;
}

/** The tag is the hash of the sources, so for two platforms a hash of both is used; a version is the same for all. */
function referenceOf(one: string, other: string): string {
  if (one === other) return one;
  const both = createHash('sha256').update(`${one} ${other}`).digest('hex').slice(0, 12);
  return `${one.slice(0, one.lastIndexOf(':'))}:${both}`;
}

async function write(all: readonly Published[], made: readonly Made[], file: string): Promise<void> {
  // An incomplete archive must not have the final name.
  const draft = `${file}.draft`;
  const [{ store }] = made as [Made]; // all builders of a user keep their images in one place
  try {
    await pipeline(ociArchiveOf(all, store.blobPath), createWriteStream(draft));
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}
