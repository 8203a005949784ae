/**
 * `npm run test:one -- FILE… [vitest's options]`: tests that need no cluster. What servers they need is built first where
 * the cache lacks it, once.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const wanted = process.argv.slice(2);
if (wanted.every((word) => word.startsWith('-'))) {
  console.error('usage: npm run test:one -- FILE…');
  process.exit(2);
}
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'unit', '--project', 'integration'];
const child = spawn(process.execPath, [...vitest, ...wanted], { stdio: 'inherit' });
const [code] = await once(child, 'close');
process.exitCode = code ?? 1;
