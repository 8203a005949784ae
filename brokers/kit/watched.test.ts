import { mkdtempSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { watchFile } from './watched.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'watched-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const parse = (text: string) => {
  if (text.startsWith('bad')) throw new Error('bad');
  return text.toUpperCase();
};

it('follows a file that is replaced as Kubernetes replaces Secrets, and keeps the last valid content', async () => {
  const path = join(directory, 'current');
  const point = (text: string) => {
    const file = join(directory, text);
    writeFileSync(file, text);
    try {
      unlinkSync(path);
    } catch {
      // The first time there is nothing to replace.
    }
    symlinkSync(file, path);
  };
  point('one');
  const seen: boolean[] = [];
  const watched = await watchFile(path, { parse, intervalMs: 60_000, onChange: ({ ok }) => seen.push(ok) });
  expect(watched.current()).toBe('ONE');
  await watched.refresh();
  expect(seen).toEqual([]);
  point('two');
  await watched.refresh();
  expect(watched.current()).toBe('TWO');
  point('bad');
  await watched.refresh();
  await watched.refresh();
  unlinkSync(path);
  await watched.refresh();
  expect(watched.current()).toBe('TWO');
  point('three');
  await watched.refresh();
  expect(watched.current()).toBe('THREE');
  expect(seen).toEqual([true, false, false, true]);
  watched.close();
});

it('is refused while it has invalid content, and no longer once the last valid one is back', async () => {
  const path = join(directory, 'file');
  writeFileSync(path, 'one');
  const seen: boolean[] = [];
  const watched = await watchFile(path, { parse, intervalMs: 60_000, onChange: ({ ok }) => seen.push(ok) });
  const states: boolean[] = [];
  for (const text of ['bad', 'one', 'bad', 'two']) {
    writeFileSync(path, text);
    await watched.refresh();
    states.push(watched.isRefused());
  }
  expect(states).toEqual([true, false, true, false]);
  expect(seen).toEqual([false, false, true]);
  watched.close();
});

it('is checked one time after the other, so that an earlier content never replaces a later one', async () => {
  const path = join(directory, 'file');
  const first = Promise.withResolvers<void>();
  writeFileSync(path, 'one');
  const slow = async (text: string) => {
    if (text === 'slow') await first.promise;
    return text;
  };
  const watched = await watchFile(path, { parse: slow, intervalMs: 60_000 });
  writeFileSync(path, 'slow');
  const looks = [watched.refresh()];
  // The first look has read the file before the next content is there.
  await new Promise((resolve) => setImmediate(resolve));
  writeFileSync(path, 'two');
  looks.push(watched.refresh());
  first.resolve();
  await Promise.all(looks);
  expect(watched.current()).toBe('two');
  watched.close();
});

it('does not start with invalid content', async () => {
  const path = join(directory, 'file');
  writeFileSync(path, 'bad');
  await expect(watchFile(path, { parse })).rejects.toThrow('bad');
});
