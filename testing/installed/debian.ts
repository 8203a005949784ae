import { cp, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheRoot, ensureEntry, withScratch } from '../../e2e/cluster/builds/cache.ts';
import { run } from '../../e2e/cluster/run.ts';

/** A program of another project, and the environment that it needs. */
export interface Installed {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * A program of a Debian package. The package and its dependencies are unpacked into the cache and not installed, so no service
 * starts and root is not needed. This works only on Debian; elsewhere it fails with an error that says so.
 */
export async function fromDebian(name: string, program: string): Promise<Installed> {
  const root = await ensureEntry(join(cacheRoot(), 'debian'), name, (draft) =>
    withScratch(name, async (work) => {
      await mkdir(join(work, 'partial'));
      const download = () =>
        run([
          'apt-get',
          'install',
          ...['--yes', '--no-install-recommends', '--download-only', '--reinstall'],
          ...['-o', 'Debug::NoLocking=1', '-o', `Dir::Cache::archives=${work}`],
          name,
        ]);
      await download().catch(async () => {
        await run(['apt-get', 'update']);
        await download();
      });
      const files = (await readdir(work)).filter((file) => file.endsWith('.deb'));
      const unpacked = join(work, 'unpacked');
      for (const file of files) await run(['dpkg-deb', '-x', join(work, file), unpacked]);
      // Some packages still name directories that are links to those below `usr`.
      const kept = ['bin', 'sbin', 'lib', 'usr/bin', 'usr/sbin', 'usr/lib', 'usr/share/postgresql'];
      for (const directory of kept) {
        await mkdir(join(unpacked, directory), { recursive: true });
        const to = directory.startsWith('usr/') ? directory : join('usr', directory);
        await cp(join(unpacked, directory), join(draft, to), { recursive: true, verbatimSymlinks: true });
      }
    }),
  );
  const libraries = await readdir(join(root, 'usr/lib'));
  const env = { LD_LIBRARY_PATH: libraries.map((directory) => join(root, 'usr/lib', directory)).join(':') };
  return { program: join(root, program), env };
}
