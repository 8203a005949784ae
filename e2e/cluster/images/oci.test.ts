import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../run.ts';
import { onPath } from '../tools.ts';
import { buildah } from './buildah.ts';
import { ociArchiveOf, ociDigest } from './oci.ts';
import { imageStore } from './store.ts';

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-oci-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

it('an archive holds what images share once, and all that its index leads to, by its digest', async () => {
  const content = { base: 'x'.repeat(1000), one: 'y'.repeat(512), first: '{}', second: '{"a":1}' };
  for (const text of Object.values(content)) await writeFile(join(directory, sha256(text)), text);
  const blob = (name: keyof typeof content) => ({
    digest: sha256(content[name]),
    size: content[name].length,
  });
  const images = [
    { reference: 'space/base:1', config: blob('first'), layers: [blob('base')] },
    { reference: 'space/one:1', config: blob('second'), layers: [blob('base'), blob('one')] },
  ];
  const file = join(directory, 'archive.tar');
  await pipeline(
    ociArchiveOf(images, (digest) => join(directory, digest)),
    createWriteStream(file),
  );
  const tar = (...args: string[]) => execFileSync('tar', [...args, '--file', file]);
  const read = (name: string) => tar('--extract', '--to-stdout', name);
  const names = String(tar('--list')).trim().split('\n');
  expect(names.filter((name) => !name.startsWith('blobs/')).toSorted()).toEqual(['index.json', 'oci-layout']);
  expect(names).toHaveLength(4 + 2 + 2);
  const { manifests } = JSON.parse(String(read('index.json')));
  expect(manifests.map(({ annotations }: { annotations: object }) => Object.values(annotations))).toEqual([
    ['space/base:1'],
    ['space/one:1'],
  ]);
  for (const [at, { digest, size }] of manifests.entries()) {
    expect(digest).toBe(ociDigest(images[at] as (typeof images)[number]));
    const manifest = read(`blobs/${digest.replace(':', '/')}`);
    expect([manifest.length, sha256(manifest)]).toEqual([size, digest.slice('sha256:'.length)]);
    const { config, layers } = JSON.parse(String(manifest));
    for (const part of [config, ...layers]) {
      const bytes = read(`blobs/${part.digest.replace(':', '/')}`);
      expect([bytes.length, sha256(bytes)]).toEqual([part.size, part.digest.slice('sha256:'.length)]);
    }
  }
});

it.skipIf(onPath('buildah') === undefined || process.getuid?.() !== 0)(
  'an image is taken out of it as it was put in, under the digest that was told (needs buildah and root)',
  async () => {
    const root = join(directory, 'images');
    const log = join(directory, 'log');
    const tool = buildah(root, log);
    const store = imageStore(join(directory, 'store'));
    const images = [];
    for (const name of ['one', 'two']) {
      await writeFile(
        join(directory, 'Dockerfile'),
        `FROM scratch\nCOPY ${name} /${name}\nENV NAME=${name}\n`,
      );
      await writeFile(join(directory, name), `file ${name}\n`);
      const reference = `space/${name}:1`;
      const dockerfile = join(directory, 'Dockerfile');
      await tool.build({ dockerfile, context: directory, references: [reference] });
      images.push(await store.add(reference, (draft) => tool.exportTo(reference, draft)));
    }
    const file = join(directory, 'real.tar');
    await pipeline(ociArchiveOf(images, store.blobPath), createWriteStream(file));

    const other = [
      '--root',
      join(directory, 'other'),
      '--runroot',
      join(directory, 'run'),
      '--storage-driver',
      'vfs',
    ];
    const id = (await run(['buildah', ...other, 'pull', `oci-archive:${file}:space/two:1`])).trim();
    const told = JSON.parse(await run(['buildah', ...other, 'inspect', '--type', 'image', id]));
    expect(told.FromImageDigest).toBe(ociDigest(images[1] as (typeof images)[number]));
    expect(told.OCIv1.config.Env).toContain('NAME=two');
  },
);
