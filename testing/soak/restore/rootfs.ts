/** Unpacks the root file system of an image, so that its programs run as shipped without a cluster. */
import { lstat, mkdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { imageBuilder } from '../../../e2e/cluster/images/builder.ts';
import type { ImageSource } from '../../../e2e/cluster/model.ts';
import { installPackages } from '../../../e2e/cluster/native/packages.ts';
import { missingOf } from '../../../e2e/cluster/native/preflight.ts';
import { OWN, packagesToBuild } from '../../../e2e/cluster/platform.ts';
import { run } from '../../../e2e/cluster/run.ts';

/** The prefix by which a layer marks removed files of the layers below it. */
const GONE = '.wh.';
const ALL_GONE = '.wh..wh..opq';

export async function unpackImage(source: ImageSource, root: string): Promise<void> {
  const missing = missingOf(packagesToBuild([OWN]));
  if (missing.length > 0) await installPackages(missing, `${root}.log`);
  const builder = imageBuilder(`${root}.log`);
  const { layers } = await builder.ensure(source);
  await mkdir(root, { recursive: true });
  for (const { digest } of layers) {
    const layer = builder.store.blobPath(digest);
    for (const name of (await run(['tar', '-tf', layer])).split('\n'))
      if (name !== '' && !name.endsWith('/')) await makeWay(root, name);
    await run(['tar', '-C', root, '--exclude', `${GONE}*`, '-xf', layer]);
  }
}

/** Removes what the layer's entry replaces or deletes. */
async function makeWay(root: string, name: string): Promise<void> {
  const folder = join(root, dirname(name));
  if (basename(name) === ALL_GONE) await rm(folder, { recursive: true });
  else if (basename(name).startsWith(GONE))
    await rm(join(folder, basename(name).slice(GONE.length)), { recursive: true, force: true });
  else if ((await lstat(join(root, name)).catch(() => undefined))?.isDirectory() === true)
    await rm(join(root, name), { recursive: true });
}
