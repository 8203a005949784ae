import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = resolve(import.meta.dirname, '..');

it.each([
  ['e2e/down.ts', 'npm run down'],
  ['e2e/undelete/main.ts', 'npm run undelete'],
  ['e2e/verify/main.ts', 'npm run verify'],
  ['e2e/restore/main.ts', 'npm run restore'],
  ['e2e/cluster/main.ts', 'e2e/cluster/main.ts'],
  ['testing/soak/main.ts', 'npm run soak'],
  ['bench/main.ts', 'npm run bench'],
  ['scripts/test.ts', 'npm test'],
])('%s names an option that it does not know, and says how it is used', (program, command) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, '--mistyped'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toContain("'--mistyped'");
  expect(stderr).toContain(`usage: `);
  expect(stderr).toContain(command);
  // No stack.
  expect(stderr).not.toMatch(/^ +at /m);
});
