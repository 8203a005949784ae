import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withScratch } from '../builds/cache.ts';
import { OWN, type Platform } from '../platform.ts';
import { run } from '../run.ts';
import { ableToRun } from './emulation.ts';

/** Debian's buildah: builds ordinary Dockerfiles without a daemon, and without a registry. */
export interface Buildah {
  has(reference: string): Promise<boolean>;
  build(options: Building): Promise<void>;
  /** Writes manifest.json and uncompressed blobs. */
  exportTo(reference: string, directory: string): Promise<void>;
  /** Forgets images, and what only they needed. */
  remove(references: readonly string[]): Promise<void>;
  /** Answers the digest by which the registry has it. */
  push(reference: string, destination: string): Promise<string>;
}

interface Building {
  readonly dockerfile: string;
  readonly context: string;
  readonly references: readonly string[];
  /** This machine's own where it is left out. */
  readonly platform?: Platform;
}

export function buildah(root: string, log: string): Buildah {
  // In a mount namespace of its own, with which the mounts go that it leaves behind.
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
      await run(ableToRun(platform, command), { log });
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
