import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isUnused, sha256Of, touch } from '../builds/cache.ts';
import { readJson, replaceFile } from '../files.ts';
import { type Blob, blobsOf, type Image } from './archive.ts';

/** Built images outside the repository: blobs named by content, and one record for each image. */
export interface ImageStore {
  readonly root: string;
  blobPath(digest: string): string;
  /** The image, if it exists and none of its blobs is truncated. */
  find(reference: string): Promise<Image | undefined>;
  /** Adds what `write` leaves in a directory of the `dir:` format (manifest.json and blobs). */
  add(reference: string, write: (directory: string) => Promise<void>): Promise<Image>;
  /** Reads every blob of `images` and removes those whose content does not match their names. */
  discardHarmed(images: readonly Image[]): Promise<void>;
  /** Removes images that were not used for a week, and blobs that belong to no image; returns the references. */
  prune(now?: Date): Promise<readonly string[]>;
}

interface Manifest {
  readonly config: Blob;
  readonly layers: readonly Blob[];
}

export function imageStore(root: string): ImageStore {
  const blobPath = (digest: string) => join(root, 'blobs', digest);
  const recordPath = (reference: string) => join(root, 'records', `${reference.replaceAll('/', '_')}.json`);

  const isWhole = async ({ digest, size }: Blob) =>
    (await stat(blobPath(digest)).catch(() => undefined))?.size === size;

  return {
    root,
    blobPath,

    async find(reference) {
      const text = await readFile(recordPath(reference), 'utf8').catch(() => undefined);
      if (text === undefined) return undefined;
      try {
        const image = JSON.parse(text) as Image;
        const whole = await Promise.all(blobsOf(image).map(isWhole));
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
          config: plain(manifest.config),
          layers: manifest.layers.map(plain),
        };
        for (const digest of new Set(blobsOf(image).map((blob) => blob.digest)))
          await rename(join(draft, digest), blobPath(digest));
        await replaceFile(recordPath(reference), JSON.stringify(image));
        return image;
      } finally {
        await rm(draft, { recursive: true, force: true });
      }
    },

    async discardHarmed(images) {
      for (const { digest } of images.flatMap(blobsOf)) {
        const path = blobPath(digest);
        const found = await sha256Of(path).catch(() => undefined);
        if (found !== digest) await rm(path, { force: true });
      }
    },

    async prune(now = new Date()) {
      const removed: string[] = [];
      const kept = new Set<string>();
      for (const file of await readdir(join(root, 'records'))) {
        const path = join(root, 'records', file);
        const image = await readJson<Image>(path);
        if (image !== undefined && !isUnused((await stat(path)).mtime, now)) {
          for (const { digest } of blobsOf(image)) kept.add(digest);
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

const plain = ({ digest, size }: Blob): Blob => ({ digest: digest.replace(/^sha256:/, ''), size });
