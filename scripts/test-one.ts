/**
 * `npm run test:one -- FILE… [vitest's options]`: tests that need no cluster, with the servers' programs that `npm test`
 * gives them; these are compiled where the cache lacks them, once.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testPrograms } from './programs.ts';

const wanted = process.argv.slice(2);
if (wanted.every((word) => word.startsWith('-'))) {
  console.error('usage: npm run test:one -- FILE…');
  process.exit(2);
}
// Of this run alone: `npm test` and other runs make theirs anew.
const directory = await mkdtemp(join(tmpdir(), 'space-test-'));
try {
  const programs = await testPrograms(join(directory, 'bin'));
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'unit', '--project', 'beside'];
  const child = spawn(process.execPath, [...vitest, ...wanted], {
    stdio: 'inherit',
    env: { ...process.env, SPACE_TEST_BIN: programs },
  });
  const [code] = await once(child, 'close');
  process.exitCode = code ?? 1;
} finally {
  await rm(directory, { recursive: true, force: true });
}
