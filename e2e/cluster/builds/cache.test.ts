import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cacheRoot, ensureEntry, findEntry, pruneEntries, touch } from './cache.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cache-'));
});
afterEach(() => rmSync(root, { recursive: true }));

const fill = (content: string) => async (draft: string) => {
  await mkdir(join(draft, 'cni'));
  await writeFile(join(draft, 'cni', 'plugin'), content);
};

const never = async () => {
  throw new Error('filled again');
};

test('an entry is filled once and found afterwards', async () => {
  const directory = await ensureEntry(root, 'cni-1', fill('plugin'));
  expect(readFileSync(join(directory, 'cni', 'plugin'), 'utf8')).toBe('plugin');
  expect(await ensureEntry(root, 'cni-1', never)).toBe(directory);
});

test('a filling that fails leaves nothing behind', async () => {
  await expect(ensureEntry(root, 'cni-1', never)).rejects.toThrow('filled again');
  expect(readdirSync(root)).toEqual([]);
});

test('an entry with a truncated file is not used, but filled again', async () => {
  const directory = await ensureEntry(root, 'cni-1', fill('plugin'));
  truncateSync(join(directory, 'cni', 'plugin'), 3);
  expect(await findEntry(root, 'cni-1')).toBeUndefined();
  expect(existsSync(directory)).toBe(false);
  await ensureEntry(root, 'cni-1', fill('plugin'));
  expect(readFileSync(join(directory, 'cni', 'plugin'), 'utf8')).toBe('plugin');
});

test('an entry with other bytes of the same length is not used', async () => {
  const directory = await ensureEntry(root, 'cni-1', fill('plugin'));
  writeFileSync(join(directory, 'cni', 'plugin'), 'nigulp');
  expect(await findEntry(root, 'cni-1')).toBeUndefined();
});

test('an entry whose files were copied is used, since only their content counts', async () => {
  const directory = await ensureEntry(root, 'cni-1', fill('plugin'));
  utimesSync(join(directory, 'cni', 'plugin'), 0, 0);
  expect(await findEntry(root, 'cni-1')).toBe(directory);
});

test('a directory without its list of files is no entry', async () => {
  await mkdir(join(root, 'cni-1'));
  expect(await findEntry(root, 'cni-1')).toBeUndefined();
});

test('if two processes want an entry at once, one fills it and both get it', async () => {
  let filled = 0;
  const counted = async (draft: string) => {
    filled += 1;
    await fill('plugin')(draft);
  };
  const both = await Promise.all([ensureEntry(root, 'cni-1', counted), ensureEntry(root, 'cni-1', counted)]);
  expect(filled).toBe(1);
  expect(new Set(both).size).toBe(1);
  expect(await findEntry(root, 'cni-1')).toBe(both[0]);
  expect(readdirSync(root)).toEqual(['cni-1']);
});

test('entries that were not used for a week are removed, as are drafts of killed commands', async () => {
  const inDays = (days: number) => new Date(Date.now() + days * 24 * 60 * 60 * 1000);
  await ensureEntry(root, 'cni-1', fill('old'));
  await ensureEntry(root, 'cni-2', fill('new'));
  await mkdir(join(root, '.draft-abc'));
  await pruneEntries(root, inDays(6));
  expect(readdirSync(root).sort()).toEqual(['.draft-abc', 'cni-1', 'cni-2']);
  await touch(join(root, 'cni-2', 'entry.json'), inDays(5));
  await pruneEntries(root, inDays(8));
  expect(readdirSync(root)).toEqual(['cni-2']);
});

test('the cache is in the directory that the user has for caches', () => {
  expect(cacheRoot({ XDG_CACHE_HOME: '/caches' }, '/home/ada')).toBe('/caches/space');
  expect(cacheRoot({ XDG_CACHE_HOME: '' }, '/home/ada')).toBe('/home/ada/.cache/space');
  expect(cacheRoot({}, '/home/ada')).toBe('/home/ada/.cache/space');
});
