import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const WORKFLOWS = resolve(import.meta.dirname, '../.github/workflows');

it('the public workflows pass actionlint', async () => {
  const files = (await readdir(WORKFLOWS)).map((file) => `${WORKFLOWS}/${file}`);
  expect(files).not.toEqual([]);
  const lint = promisify(execFile)('go', ['-C', 'scripts/actionlint', 'tool', 'actionlint', ...files]);
  const report = await lint.then(
    () => '',
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  );
  expect(report).toBe('');
}, 300_000);
