import { copyFile, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { withScratch } from '../builds/cache.ts';
import { archiveOf, type Image } from '../images/archive.ts';
import type { ImageBuilder, NamedImage } from '../images/builder.ts';
import type { ImageStore } from '../images/store.ts';
import { run } from '../run.ts';
import type { Layout } from './layout.ts';

/** The chart's S3 server, by its name in the world. */
export const S3_SERVER = { name: 'versity/versitygw', tag: 'v1.8.0' } as const;

const recipes = join(import.meta.dirname, '..', 'images');

/** The images that the node itself needs, and those that have a name in the world but no registry here. */
export interface OwnImages {
  readonly pause: Promise<Image>;
  readonly coredns: Promise<Image>;
  readonly versitygw: Promise<Image>;
}

/** `program` answers the directory that a component was built into; `packages` are what building an image needs. */
export function ownImages(
  builder: ImageBuilder,
  packages: Promise<void>,
  program: (component: string) => Promise<string>,
): OwnImages {
  const image = async (recipe: Recipe): Promise<Image> => {
    await packages;
    return ensureRecipe(builder, recipe);
  };
  const images: OwnImages = {
    pause: image({ name: 'space/pause', directory: 'pause', content: pauseSource, fill: compilePause }),
    coredns: image(ofProgram(program, 'kubernetes', 'coredns', { name: 'space/coredns' })),
    versitygw: image(s3Server(program)),
  };
  // They are awaited later, and one that fails before is no unhandled failure.
  for (const one of Object.values(images)) one.catch(() => undefined);
  return images;
}

type Naming = Pick<NamedImage, 'name' | 'tag'>;
type Program = (component: string) => Promise<string>;

/** An image of one program: the name of the build's cache entry says all that the program is made of. */
const ofProgram = (program: Program, component: string, file: string, naming: Naming): Recipe => ({
  ...naming,
  directory: file,
  content: async () => basename(await program(component)),
  fill: async (context) => copyFile(join(await program(component), file), join(context, file)),
});

const s3Server = (program: Program): Recipe => ofProgram(program, 'versitygw', 'versitygw', S3_SERVER);

/** The S3 server's image by itself, for a Space that is carried somewhere else. */
export const ensureS3Server = (builder: ImageBuilder, program: Program): Promise<Image> =>
  ensureRecipe(builder, s3Server(program));

interface Recipe extends Naming {
  /** The directory of the Dockerfile. */
  readonly directory: string;
  readonly content: () => Promise<string>;
  readonly fill: (context: string) => Promise<unknown>;
}

const ensureRecipe = (builder: ImageBuilder, { directory, fill, ...image }: Recipe): Promise<Image> =>
  withScratch(directory, (context) =>
    builder.ensure({
      ...image,
      dockerfile: join(recipes, directory, 'Dockerfile'),
      context,
      buildContext: async () => void (await fill(context)),
    }),
  );

const pauseFile = join(recipes, 'pause', 'pause.c');
const pauseSource = () => readFile(pauseFile, 'utf8');
const compilePause = (context: string) =>
  run(['gcc', '-Os', '-static', '-s', '-o', join(context, 'pause'), pauseFile]);

const ctr = ({ bin, containerdSocket }: Layout): readonly [string, ...string[]] => [
  join(bin, 'ctr'),
  '--address',
  containerdSocket,
  '--namespace',
  'k8s.io',
];

export const containerdAnswers = (layout: Layout): Promise<boolean> =>
  run([...ctr(layout), 'version']).then(
    () => true,
    () => false,
  );

/** Imports what the node does not have, in one archive. Answers how many that were. */
export async function importImages(
  layout: Layout,
  store: ImageStore,
  images: readonly Image[],
  log: string,
): Promise<number> {
  const before = await namesOn(layout);
  const missing = images.filter(({ reference }) => wholeName(before, reference) === undefined);
  if (missing.length > 0) await importArchive(layout, store, missing, log);
  const after = missing.length > 0 ? await namesOn(layout) : before;
  for (const { reference, alias } of images) {
    const name = wholeName(after, reference);
    if (name === undefined) throw new Error(`containerd did not take ${reference}`);
    if (alias === undefined) continue;
    const other = name.slice(0, -reference.length) + alias;
    await run([...ctr(layout), 'images', 'tag', '--force', name, other], { log });
  }
  return missing.length;
}

const namesOn = async (layout: Layout): Promise<readonly string[]> =>
  (await run([...ctr(layout), 'images', 'list', '--quiet'])).split('\n');

/** containerd lists whole names, with the registry that a short name stands for. */
const wholeName = (names: readonly string[], reference: string) =>
  names.find((name) => name.endsWith(`/${reference}`));

async function importArchive(
  layout: Layout,
  store: ImageStore,
  missing: readonly Image[],
  log: string,
): Promise<void> {
  const input = archiveOf(missing, store.blobPath);
  await run([...ctr(layout), 'images', 'import', '-'], { input, log }).catch(async (error: unknown) => {
    // A layer that is not what its name says is refused; the next command builds its image again.
    await store.discardHarmed(missing);
    throw error;
  });
}
