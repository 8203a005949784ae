import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheRoot, withScratch } from '../builds/cache.ts';
import { locked } from '../lock.ts';
import type { ImageSource } from '../model.ts';
import { inKey, OWN, type Platform } from '../platform.ts';
import { ClusterProblem } from '../problem.ts';
import type { Image } from './archive.ts';
import { type Base, basesOn } from './bases.ts';
import { type Buildah, buildah } from './buildah.ts';
import { type BaseUse, basesOf, imageKey, keyOf, onBases } from './key.ts';
import { type ImageStore, imageStore } from './store.ts';

/** An image whose name does not follow from its content, since it has a public name already. */
export interface NamedImage extends ImageSource {
  readonly tag?: string;
  /** A hash of the future context, if it is known before: then the context is filled only for a build. */
  readonly content?: () => Promise<string>;
}

export interface ImageBuilder {
  readonly store: ImageStore;
  /** Builds the bases in advance. */
  prepare(): Promise<void>;
  ensure(source: NamedImage): Promise<Image>;
  /** Builds and pushes; returns the reference in that registry with the digest, which identifies the content. */
  push(source: ImageSource, registry: string): Promise<string>;
}

/** Builds for `platform`. `RUN` commands of a Dockerfile run by qemu if this machine's processor cannot run them. */
export function imageBuilder(
  log: string,
  waiting: (text: string) => void = () => {},
  platform: Platform = OWN,
): ImageBuilder {
  const cache = cacheRoot();
  const root = join(cache, 'images');
  const store = imageStore(root);
  const tool = buildah(root, log);

  /**
   * Only one process builds at a time, since two would do the same work twice. Builds of this process queue here
   * first.
   */
  let queue: Promise<unknown> = Promise.resolve();
  function alone<T>(work: () => Promise<T>): Promise<T> {
    const lock = join(root, 'lock');
    const next = queue.then(() => locked(lock, () => waiting('another command is building images'), work));
    queue = next.catch(() => undefined);
    return next;
  }

  async function ensureBase(base: Base): Promise<void> {
    const keyed = await keyedName(base);
    if (await tool.has(keyed)) return;
    for (const below of base.from) await ensureBase(below);
    await withScratch('base', async (context) => {
      await base.fill(context, { cache, log });
      await buildOnBases(tool, join(context, 'Dockerfile'), context, keyed, base);
    });
  }

  const builder: ImageBuilder = {
    store,
    prepare: () =>
      alone(async () => {
        for (const base of basesOn(platform)) await ensureBase(base);
      }),
    async ensure(source) {
      const content = await source.content?.();
      if (content === undefined) await source.buildContext?.();
      const dockerfile = await readFile(source.dockerfile, 'utf8');
      const bases = basesOf(dockerfile).map((use) => baseOf(use, platform, source.dockerfile));
      const baseKeys = [...(await Promise.all(bases.map((base) => base.key()))), ...inKey(platform)];
      const key =
        content === undefined
          ? await imageKey(dockerfile, source.context, baseKeys)
          : keyOf(dockerfile, baseKeys, content);
      const built = `${source.name}:${key.slice(0, 12)}`;
      const image =
        (await store.find(built)) ??
        (await alone(async () => {
          for (const base of bases) await ensureBase(base);
          if (content !== undefined) await source.buildContext?.();
          await buildOnBases(tool, source.dockerfile, source.context, built, { platform });
          const added = await store.add(built, (directory) => tool.exportTo(built, directory));
          const unused = await store.prune();
          if (unused.length > 0) await tool.remove(unused).catch(() => undefined); // only disk space is at stake
          return added;
        }));
      const { name, tag, alias } = source;
      return {
        ...image,
        ...(tag !== undefined && { reference: `${name}:${tag}` }),
        ...(alias !== undefined && { alias: `${name}:${alias}` }),
      };
    },
    async push(source, registry) {
      const { reference } = await builder.ensure(source);
      const digest = await tool.push(reference, `${registry}/${reference}`);
      return `${registry}/${reference}@${digest}`;
    },
  };
  return builder;
}

/** A base gets its key as a name: its public name is another image for each platform, and in other checkouts. */
async function buildOnBases(
  tool: Buildah,
  file: string,
  context: string,
  reference: string,
  { platform }: Pick<Base, 'platform'>,
) {
  const dockerfile = await readFile(file, 'utf8');
  const names = new Map<string, string>();
  for (const use of basesOf(dockerfile)) {
    const base = baseOf(use, platform, file);
    const foreign = base.platform === platform ? '' : `--platform=${base.platform} `;
    names.set(JSON.stringify(use), `${foreign}${await keyedName(base)}`);
  }
  await withScratch('dockerfile', async (directory) => {
    const keyed = join(directory, 'Dockerfile');
    await writeFile(
      keyed,
      onBases(dockerfile, (use) => names.get(JSON.stringify(use)) ?? use.reference),
    );
    await tool.build({ dockerfile: keyed, context, references: [reference], platform });
  });
}

const keyedName = async (base: Base): Promise<string> =>
  `space/base-${base.reference.replace(':', '-')}:${await base.key()}`;

function baseOf({ reference, toBuild }: BaseUse, platform: Platform, dockerfile: string): Base {
  const bases = basesOn(toBuild ? OWN : platform);
  const base = bases.find((one) => one.reference === reference);
  if (base !== undefined) return base;
  const known = bases.map((one) => one.reference).join(', ');
  throw new ClusterProblem(
    `${dockerfile} starts from ${reference}, which cannot be had without a registry.`,
    `Start from one of ${known}, or build on a machine with a Docker engine.`,
  );
}
