import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { setCpuWeight } from './share.ts';

async function hierarchies(...names: readonly string[]): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'space-share-'));
  onTestFinished(() => rm(root, { recursive: true }));
  for (const name of names) await mkdir(join(root, name));
  return root;
}

test('with cgroup v1 a cluster has the weight of that many processes, not of one', async () => {
  const root = await hierarchies('cpu', 'memory');
  await setCpuWeight('lab', 32, root);
  await setCpuWeight('lab', 32, root); // a group that an earlier engine left
  expect(Number(await readFile(join(root, 'cpu/lab/cpu.shares'), 'utf8'))).toBe(32 * 1024);
  expect(await readdir(join(root, 'memory'))).toEqual([]);
});

test('with cgroup v2 nothing is created', async () => {
  const root = await hierarchies();
  await setCpuWeight('lab', 32, root);
  expect(await readdir(root)).toEqual([]);
});
