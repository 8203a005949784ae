import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { locked } from './lock.ts';
import { identityOf } from './native/identity.ts';

let directory: string;
let file: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'lock-'));
  file = join(directory, 'lock');
});
afterEach(() => rmSync(directory, { recursive: true }));

test('two processes never run at once, and the later one learns that it waits', async () => {
  let inside = 0;
  let most = 0;
  let waited = 0;
  const release = Promise.withResolvers<void>();
  const work = async () => {
    inside += 1;
    most = Math.max(most, inside);
    await release.promise;
    inside -= 1;
  };
  const waiting = () => {
    waited += 1;
    release.resolve();
  };
  await Promise.all([locked(file, waiting, work), locked(file, waiting, work)]);
  expect(most).toBe(1);
  expect(waited).toBe(1);
  expect(readdirSync(directory)).toEqual([]);
});

test('a failure releases the lock', async () => {
  const failing = locked(
    file,
    () => undefined,
    async () => {
      throw new Error('no');
    },
  );
  await expect(failing).rejects.toThrow('no');
  expect(existsSync(file)).toBe(false);
});

test.each([
  ['of a process that ended', () => JSON.stringify({ ...identityOf(process.pid)!, pid: ended() })],
  [
    'of another process that had this pid',
    () => JSON.stringify({ ...identityOf(process.pid)!, started: '1' }),
  ],
  ['that is no lock at all', () => 'x'],
])('a lock %s does not hold', async (_, content) => {
  writeFileSync(file, content());
  await expect(
    locked(
      file,
      () => undefined,
      async () => 'done',
    ),
  ).resolves.toBe('done');
});

const ended = () => spawnSync('true').pid;
