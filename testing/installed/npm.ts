import { join } from 'node:path';
import { cacheRoot, ensureEntry } from '../../e2e/cluster/builds/cache.ts';
import { run } from '../../e2e/cluster/run.ts';

/** The directory with these npm packages in its `node_modules`; they are fetched once. */
export function fromNpm(...requirements: readonly string[]): Promise<string> {
  const name = requirements.join('+').replace(/[^A-Za-z0-9.+]+/g, '-');
  return ensureEntry(join(cacheRoot(), 'npm'), name, async (draft) => {
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--no-package-lock'];
    await run(['npm', 'install', '--silent', ...flags, '--prefix', draft, ...requirements]);
  });
}
