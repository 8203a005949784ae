import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isUnused, sha256Of, touch } from '../builds/cache.ts';
import { readJson, replaceFile } from '../files.ts';
import type { Image } from './archive.ts';

/** Built images outside the repository: blobs named by content, and one record an image. */
export interface ImageStore {
  readonly root: string;
  blobPath(digest: string): string;
  /** The image when it is there, with every blob whole. */
  find(reference: string): Promise<Image | undefined>;
  /** Takes in what `write` leaves in a directory of the `dir:` kind (manifest.json and blobs). */
  add(reference: string, write: (directory: string) => Promise<void>): Promise<Image>;
  /** Removes images that nobody used for a week, and blobs that no image has; answers the references. */
  prune(now?: Date): Promise<readonly string[]>;
}

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string }[];
}

export function imageStore(root: string): ImageStore {
  const blobPath = (digest: string) => join(root, 'blobs', digest);
  const recordPath = (reference: string) => join(root, 'records', `${reference.replaceAll('/', '_')}.json`);

  async function isWhole(digest: string): Promise<boolean> {
    const path = blobPath(digest);
    if (!(await stat(path).catch(() => undefined))) return false;
    if ((await sha256Of(path)) === digest) return true;
    await rm(path, { force: true });
    return false;
  }

  return {
    root,
    blobPath,

    async find(reference) {
      const text = await readFile(recordPath(reference), 'utf8').catch(() => undefined);
      if (text === undefined) return undefined;
      try {
        const image = JSON.parse(text) as Image;
        const whole = await Promise.all([image.config, ...image.layers].map(isWhole));
        if (!whole.every(Boolean)) return undefined;
        await touch(recordPath(reference));
        return image;
      } catch {
        return undefined; // harmed: to be built again
      }
    },

    async add(reference, write) {
      await mkdir(join(root, 'blobs'), { recursive: true });
      await mkdir(join(root, 'records'), { recursive: true });
      const draft = await mkdtemp(join(root, '.draft-'));
      try {
        await write(draft);
        const manifest = JSON.parse(await readFile(join(draft, 'manifest.json'), 'utf8')) as Manifest;
        const image: Image = {
          reference,
          config: plain(manifest.config.digest),
          layers: manifest.layers.map(({ digest }) => plain(digest)),
        };
        for (const digest of new Set([image.config, ...image.layers]))
          await rename(join(draft, digest), blobPath(digest));
        await replaceFile(recordPath(reference), JSON.stringify(image));
        return image;
      } finally {
        await rm(draft, { recursive: true, force: true });
      }
    },

    async prune(now = new Date()) {
      const removed: string[] = [];
      const kept = new Set<string>();
      for (const file of await readdir(join(root, 'records'))) {
        const path = join(root, 'records', file);
        const image = await readJson<Image>(path);
        if (image !== undefined && !isUnused((await stat(path)).mtime, now)) {
          for (const digest of [image.config, ...image.layers]) kept.add(digest);
          continue;
        }
        if (image !== undefined) removed.push(image.reference);
        await rm(path, { force: true });
      }
      for (const digest of await readdir(join(root, 'blobs')))
        if (!kept.has(digest)) await rm(blobPath(digest), { force: true });
      return removed;
    },
  };
}

const plain = (digest: string) => digest.replace(/^sha256:/, '');
