import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OWN, PLATFORMS } from '../platform.ts';
import { run } from '../run.ts';
import { onPath } from '../tools.ts';
import { buildah } from './buildah.ts';
import { ociArchiveOf, ociDigest, type Published } from './oci.ts';
import { imageStore } from './store.ts';

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-oci-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

it('an archive contains common layers once, and everything that its index names, by digest', async () => {
  const content = { base: 'x'.repeat(1000), one: 'y'.repeat(512), first: '{}', second: '{"a":1}' };
  for (const text of Object.values(content)) await writeFile(join(directory, sha256(text)), text);
  const blob = (name: keyof typeof content) => ({
    digest: sha256(content[name]),
    size: content[name].length,
  });
  const platform = 'linux/amd64';
  const images: readonly Published[] = [
    { reference: 'space/base:1', images: [{ platform, config: blob('first'), layers: [blob('base')] }] },
    {
      reference: 'space/one:1',
      images: [{ platform, config: blob('second'), layers: [blob('base'), blob('one')] }],
    },
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
    expect(digest).toBe(ociDigest(images[at]!));
    const manifest = read(`blobs/${digest.replace(':', '/')}`);
    expect([manifest.length, sha256(manifest)]).toEqual([size, digest.slice('sha256:'.length)]);
    const { config, layers } = JSON.parse(String(manifest));
    for (const part of [config, ...layers]) {
      const bytes = read(`blobs/${part.digest.replace(':', '/')}`);
      expect([bytes.length, sha256(bytes)]).toEqual([part.size, part.digest.slice('sha256:'.length)]);
    }
  }
});

it('an image for several platforms is an index with a digest, which names the platform of each', async () => {
  const texts = { layer: 'x', amd64: '{"architecture":"amd64"}', arm64: '{"architecture":"arm64"}' };
  for (const text of Object.values(texts)) await writeFile(join(directory, sha256(text)), text);
  const blob = (name: keyof typeof texts) => ({ digest: sha256(texts[name]), size: texts[name].length });
  const published: Published = {
    reference: 'space/one:1',
    images: [
      { platform: 'linux/amd64', config: blob('amd64'), layers: [blob('layer')] },
      { platform: 'linux/arm64', config: blob('arm64'), layers: [blob('layer')] },
    ],
  };
  const file = join(directory, 'index.tar');
  await pipeline(
    ociArchiveOf([published], (digest) => join(directory, digest)),
    createWriteStream(file),
  );
  const read = (name: string) => execFileSync('tar', ['--extract', '--to-stdout', '--file', file, name]);
  const blobOf = (digest: string) => read(`blobs/${digest.replace(':', '/')}`);
  const named = JSON.parse(String(read('index.json'))).manifests;
  expect(named.map(({ digest }: { digest: string }) => digest)).toEqual([ociDigest(published)]);
  expect(named[0].mediaType).toBe('application/vnd.oci.image.index.v1+json');
  const bytes = blobOf(named[0].digest);
  expect([bytes.length, `sha256:${sha256(bytes)}`]).toEqual([named[0].size, named[0].digest]);
  const { manifests } = JSON.parse(String(bytes));
  expect(manifests).toHaveLength(2);
  for (const { digest, size, platform } of manifests) {
    const manifest = blobOf(digest);
    expect([manifest.length, `sha256:${sha256(manifest)}`]).toEqual([size, digest]);
    const { architecture } = JSON.parse(String(blobOf(JSON.parse(String(manifest)).config.digest)));
    expect(platform).toEqual({ os: 'linux', architecture });
  }
});

const runnable = onPath('buildah') !== undefined && process.getuid?.() === 0;

/** An image that was built, for this machine's own platform. */
async function builtImage(): Promise<Published> {
  const tool = buildah(join(directory, 'images'), join(directory, 'log'));
  const store = imageStore(join(directory, 'store'));
  const dockerfile = join(directory, 'Dockerfile');
  await writeFile(dockerfile, 'FROM scratch\nCOPY one /one\nENV NAME=one\n');
  await writeFile(join(directory, 'one'), 'file one\n');
  const reference = 'space/one:1';
  await tool.build({ dockerfile, context: directory, references: [reference] });
  const { config, layers } = await store.add(reference, (draft) => tool.exportTo(reference, draft));
  for (const { digest } of [config, ...layers])
    await copyFile(store.blobPath(digest), join(directory, digest));
  return { reference, images: [{ platform: OWN, config, layers }] };
}

/** An image of one file, for every platform; nothing has to run for that. */
async function writtenImages(): Promise<Published> {
  const blob = async (bytes: Buffer) => {
    await writeFile(join(directory, sha256(bytes)), bytes);
    return { digest: sha256(bytes), size: bytes.length };
  };
  await writeFile(join(directory, 'two'), 'file two\n');
  const layer = await blob(execFileSync('tar', ['--create', '--directory', directory, 'two']));
  const images = [];
  for (const platform of PLATFORMS) {
    const config = Buffer.from(
      JSON.stringify({
        architecture: platform.slice('linux/'.length),
        os: 'linux',
        config: { Env: ['NAME=two'] },
        rootfs: { type: 'layers', diff_ids: [`sha256:${layer.digest}`] },
      }),
    );
    images.push({ platform, config: await blob(config), layers: [layer] });
  }
  return { reference: 'space/two:1', images };
}

describe.skipIf(!runnable)('buildah takes out of an archive (needs buildah and root)', () => {
  let file: string;
  let published: readonly Published[];
  let other: readonly string[];
  beforeAll(async () => {
    published = [await builtImage(), await writtenImages()];
    file = join(directory, 'real.tar');
    await pipeline(
      ociArchiveOf(published, (digest) => join(directory, digest)),
      createWriteStream(file),
    );
    const at = (name: string) => join(directory, name);
    other = ['--root', at('other'), '--runroot', at('run'), '--storage-driver', 'vfs'];
  });

  const pulled = async (name: string, ...options: string[]) => {
    const id = await run(['buildah', ...other, 'pull', ...options, `oci-archive:${file}:space/${name}:1`]);
    return JSON.parse(await run(['buildah', ...other, 'inspect', '--type', 'image', id.trim()]));
  };

  it('an image as it was added, under the returned digest', async () => {
    const told = await pulled('one');
    expect(told.FromImageDigest).toBe(ociDigest(published[0]!));
    expect(told.OCIv1.config.Env).toContain('NAME=one');
  });

  it.each(['amd64', 'arm64'])('of an index the image for %s', async (architecture) => {
    const told = await pulled('two', '--arch', architecture);
    expect(told.OCIv1.architecture).toBe(architecture);
    expect(told.OCIv1.config.Env).toContain('NAME=two');
  });
});
