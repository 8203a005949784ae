import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { breakLine, type Mutant } from './mutant.ts';

const run = promisify(execFile);
const HERE = join(import.meta.dirname, '../../../..');

/** A copy of the sources, so that mutations do not change the checkout. */
export interface Tree {
  readonly root: string;
  /** Replaces one line while `work` runs. */
  broken<T>(mutant: Pick<Mutant, 'file' | 'line' | 'broken'>, work: () => Promise<T>): Promise<T>;
  remove(): Promise<void>;
}

export async function copyTree(): Promise<Tree> {
  const root = await mkdtemp(join(tmpdir(), 'space-mutants-'));
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate'];
  const { stdout } = await run('git', list, { cwd: HERE, maxBuffer: 2 ** 26 });
  for (const name of stdout.split('\0').filter((one) => one !== '')) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    // The file may have been removed without a commit.
    await cp(join(HERE, name), join(root, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
  await linkPackages(root);
  return {
    root,
    broken: async ({ file, line, broken }, work) => {
      const path = join(root, file);
      const text = await readFile(path, 'utf8');
      await writeFile(path, breakLine(text, line, broken));
      try {
        return await work();
      } finally {
        await writeFile(path, text);
      }
    },
    remove: () => rm(root, { recursive: true }),
  };
}

/** Links packages of npm to those of the checkout, and packages of the workspace to the copy. */
async function linkPackages(root: string): Promise<void> {
  const packages = join(HERE, 'node_modules');
  await mkdir(join(root, 'node_modules/@space'), { recursive: true });
  for (const name of await readdir(packages))
    if (name !== '@space' && name !== '.vite' && name !== '.vite-temp')
      await symlink(join(packages, name), join(root, 'node_modules', name));
  for (const name of await readdir(join(packages, '@space'))) {
    const place = (await realpath(join(packages, '@space', name))).slice((await realpath(HERE)).length);
    await symlink(join(root, place), join(root, 'node_modules/@space', name));
  }
}
