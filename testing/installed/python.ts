import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { cacheRoot, ensureEntry } from '../../e2e/cluster/builds/cache.ts';
import { run } from '../../e2e/cluster/run.ts';

/** The directory with a package of PyPI and its dependencies, for `PYTHONPATH`; fetched once. Needs `python3` with `pip`. */
export async function fromPyPi(requirement: string): Promise<string> {
  const name = requirement.replace(/[^A-Za-z0-9.]+/g, '-');
  const version = await run(['python3', '--version']);
  const key = createHash('sha256').update(`${process.arch} ${version}`).digest('hex').slice(0, 8);
  return ensureEntry(join(cacheRoot(), 'pypi'), `${name}-${key}`, async (draft) => {
    await run(['python3', '-m', 'pip', 'install', '--quiet', '--target', draft, requirement]);
  });
}
