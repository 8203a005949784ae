import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { installPackages } from './packages.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'space-apt-'));
  vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

/** Replaces apt, whose failures cannot be produced on demand. */
async function apt(script: string): Promise<void> {
  await writeFile(join(folder, 'apt-get'), `#!/bin/sh\necho "$@" >> ${folder}/calls\n${script}\n`);
  await chmod(join(folder, 'apt-get'), 0o755);
}

const calls = async () => (await readFile(join(folder, 'calls'), 'utf8')).trim().split('\n');

test('a failure of apt is reported with the end of its output and what to do', async () => {
  await apt('echo "E: Unable to locate package ipset"; exit 100');
  const failure = await installPackages(['ipset', 'tini'], join(folder, 'log')).catch(
    (error: unknown) => error,
  );
  expect(String(failure)).toContain('apt could not install ipset, tini.');
  expect(String(failure)).toContain('apt-get install ipset tini');
  expect(await readFile(join(folder, 'log'), 'utf8')).toContain('E: Unable to locate package ipset');
});

test('lists that do not know a package are refreshed once', async () => {
  await apt(`case "$1" in update) touch ${folder}/fresh ;; *) test -e ${folder}/fresh ;; esac`);
  await installPackages(['ipset'], join(folder, 'log'));
  expect((await calls()).map((call) => call.split(' ')[0])).toEqual(['install', 'update', 'install']);
});
