import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, truncateSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { touch } from '../builds/cache.ts';
import { blobsOf } from './archive.ts';
import { type ImageStore, imageStore } from './store.ts';

let directory: string;
let store: ImageStore;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'store-'));
  store = imageStore(directory);
});
afterEach(() => rmSync(directory, { recursive: true }));

const digestOf = (content: string) => createHash('sha256').update(content).digest('hex');

const exported = (config: string, layers: readonly string[]) => async (directory: string) => {
  for (const blob of [config, ...layers]) await writeFile(join(directory, digestOf(blob)), blob);
  const described = (blob: string) => ({ digest: `sha256:${digestOf(blob)}`, size: blob.length });
  const manifest = { config: described(config), layers: layers.map(described) };
  await writeFile(join(directory, 'manifest.json'), JSON.stringify(manifest));
};

test('an image is found as it was added', async () => {
  const image = await store.add('space/operator:1', exported('{}', ['base', 'top']));
  expect(image.layers.map(({ digest }) => digest)).toEqual([digestOf('base'), digestOf('top')]);
  expect(await store.find('space/operator:1')).toEqual(image);
  expect(await store.find('space/operator:2')).toBeUndefined();
});

test('images share the layers that they have in common', async () => {
  await store.add('space/a:1', exported('{"a":1}', ['base', 'a']));
  await store.add('space/b:1', exported('{"b":1}', ['base', 'b']));
  expect(readdirSync(join(store.root, 'blobs'))).toHaveLength(5);
});

test('an image with a truncated layer is not found', async () => {
  const image = await store.add('space/operator:1', exported('{}', ['base', 'top']));
  truncateSync(store.blobPath(image.layers[0]!.digest), 1);
  expect(await store.find('space/operator:1')).toBeUndefined();
});

test('a layer with other bytes of the same length is found out when it is asked for', async () => {
  const image = await store.add('space/operator:1', exported('{}', ['base', 'top']));
  await writeFile(store.blobPath(image.layers[0]!.digest), 'esab');
  await store.discardHarmed([image]);
  expect(await store.find('space/operator:1')).toBeUndefined();
});

test('an export that fails adds nothing', async () => {
  const failing = async () => {
    throw new Error('no space left');
  };
  await expect(store.add('space/operator:1', failing)).rejects.toThrow('no space left');
  expect(await store.find('space/operator:1')).toBeUndefined();
});

test('an image that was not used for a week is removed, with the layers that no other has', async () => {
  const inDays = (days: number) => new Date(Date.now() + days * 24 * 60 * 60 * 1000);
  await store.add('space/old:1', exported('{"old":1}', ['base', 'old']));
  const image = await store.add('space/new:1', exported('{"new":1}', ['base', 'new']));
  expect(await store.prune(inDays(6))).toEqual([]);
  await touch(join(store.root, 'records', 'space_new:1.json'), inDays(5));
  expect(await store.prune(inDays(8))).toEqual(['space/old:1']);
  expect(await store.find('space/new:1')).toEqual(image);
  expect(readdirSync(join(store.root, 'blobs')).sort()).toEqual(
    blobsOf(image)
      .map(({ digest }) => digest)
      .sort(),
  );
});
