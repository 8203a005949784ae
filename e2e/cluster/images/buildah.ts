import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withScratch } from '../builds/cache.ts';
import { OWN, type Platform } from '../platform.ts';
import { run } from '../run.ts';
import { emulatedIfNeeded } from './emulation.ts';

/** Debian's buildah: builds ordinary Dockerfiles without a daemon, and without a registry. */
export interface Buildah {
  has(reference: string): Promise<boolean>;
  build(options: Building): Promise<void>;
  /** Writes manifest.json and uncompressed blobs. */
  exportTo(reference: string, directory: string): Promise<void>;
  /** Removes images, and layers that only they needed. */
  remove(references: readonly string[]): Promise<void>;
  /** Returns the digest of the image in the registry. */
  push(reference: string, destination: string): Promise<string>;
}

interface Building {
  readonly dockerfile: string;
  readonly context: string;
  readonly references: readonly string[];
  /** By default this machine's own. */
  readonly platform?: Platform;
}

export function buildah(root: string, log: string): Buildah {
  // It runs in a mount namespace of its own, which ends with the mounts that buildah leaves behind.
  const program = [
    ...['unshare', '--mount', 'buildah'],
    ...['--root', join(root, 'storage'), '--runroot', join(root, 'runroot'), '--storage-driver', 'overlay'],
  ] as const;
  const call = (...args: readonly string[]) => run([...program, ...args], { log });
  return {
    async has(reference) {
      await mkdir(root, { recursive: true });
      return run([...program, 'images', '--quiet', reference]).then(
        (ids) => ids.trim() !== '',
        () => false,
      );
    },
    async build({ dockerfile, context, references, platform = OWN }) {
      const command = [
        ...program,
        ...['bud', '--isolation', 'chroot', '--pull-never', '--layers', '--file', dockerfile],
        ...(platform === OWN ? [] : ['--platform', platform]),
        ...references.flatMap((reference) => ['--tag', reference]),
        context,
      ] as const;
      await run(emulatedIfNeeded(platform, command), { log });
    },
    async remove(references) {
      await call('rmi', '--force', ...references);
      await call('rmi', '--prune');
    },
    async push(reference, destination) {
      return withScratch('push', async (directory) => {
        const file = join(directory, 'digest');
        await call('push', '--digestfile', file, reference, `docker://${destination}`);
        return (await readFile(file, 'utf8')).trim();
      });
    },
    async exportTo(reference, directory) {
      await call('push', '--disable-compression', '--format', 'v2s2', reference, `dir:${directory}`);
    },
  };
}
