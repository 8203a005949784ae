import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { ROOT } from './files.ts';
import { changedLines } from './patch.ts';

const run = promisify(execFile);
const git = async (...words: readonly string[]) =>
  (await run('git', words, { cwd: ROOT, maxBuffer: 2 ** 26 })).stdout;

/** Whether a line of a file was changed since this branch left main. */
export type Changed = (file: string, line: number) => boolean;

/** Undefined in a clone that does not know that commit: a shallow one, or one without a branch main. */
export async function changedSinceMain(files: readonly string[]): Promise<Changed | undefined> {
  const base = await git('merge-base', 'HEAD', 'main').catch(() => undefined);
  if (base === undefined) return undefined;
  const lines = changedLines(
    await git('diff', '-U0', '--no-color', '--no-ext-diff', base.trim(), '--', ...files),
  );
  return (file, line) => lines.get(file)?.has(line) ?? false;
}
