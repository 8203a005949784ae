import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheRoot, withScratch } from '../builds/cache.ts';
import { locked } from '../lock.ts';
import type { ImageSource } from '../model.ts';
import { ClusterProblem } from '../problem.ts';
import type { Image } from './archive.ts';
import { BASES, type Base } from './bases.ts';
import { buildah } from './buildah.ts';
import { basesOf, imageKey, keyOf } from './key.ts';
import { type ImageStore, imageStore } from './store.ts';

/** An image with a name that does not follow its content: one that has a name in the world already. */
export interface NamedImage extends ImageSource {
  readonly tag?: string;
  /** What the context will hold, when that is known before it is filled: then it is filled only to be built. */
  readonly content?: () => Promise<string>;
}

export interface ImageBuilder {
  readonly store: ImageStore;
  /** Makes the bases ahead of need. */
  prepare(): Promise<void>;
  ensure(source: NamedImage): Promise<Image>;
  /** Builds and pushes; answers the reference in that registry, with the digest, so that it can mean nothing else. */
  push(source: ImageSource, registry: string): Promise<string>;
}

export function imageBuilder(log: string, waiting: (text: string) => void = () => {}): ImageBuilder {
  const cache = cacheRoot();
  const root = join(cache, 'images');
  const store = imageStore(root);
  const tool = buildah(root, log);

  /** One build at a time, of all processes: two would do the same work twice. Ours queue up here first. */
  let queue: Promise<unknown> = Promise.resolve();
  function alone<T>(work: () => Promise<T>): Promise<T> {
    const lock = join(root, 'lock');
    const next = queue.then(() => locked(lock, () => waiting('another command is building images'), work));
    queue = next.catch(() => undefined);
    return next;
  }

  async function ensureBase(base: Base): Promise<void> {
    const keyed = `space/base-${base.reference.replace(':', '-')}:${await base.key()}`;
    if (await tool.has(keyed)) return;
    for (const below of base.from) await ensureBase(below);
    await withScratch('base', async (context) => {
      await base.fill(context, { cache, log });
      const dockerfile = join(context, 'Dockerfile');
      await tool.build({ dockerfile, context, references: [base.reference, keyed] });
    });
  }

  const builder: ImageBuilder = {
    store,
    prepare: () =>
      alone(async () => {
        for (const base of BASES) await ensureBase(base);
      }),
    async ensure(source) {
      const content = await source.content?.();
      if (content === undefined) await source.buildContext?.();
      const dockerfile = await readFile(source.dockerfile, 'utf8');
      const bases = basesOf(dockerfile).map((reference) => baseNamed(reference, source.dockerfile));
      const baseKeys = await Promise.all(bases.map((base) => base.key()));
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
          await tool.build({ dockerfile: source.dockerfile, context: source.context, references: [built] });
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

function baseNamed(reference: string, dockerfile: string): Base {
  const base = BASES.find((one) => one.reference === reference);
  if (base !== undefined) return base;
  const known = BASES.map((one) => one.reference).join(', ');
  throw new ClusterProblem(
    `${dockerfile} starts from ${reference}, which cannot be had without a registry.`,
    `Start from one of ${known}, or build on a machine with a Docker engine.`,
  );
}
