import { execFileSync } from 'node:child_process';
import { createWriteStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { expect, onTestFinished, test } from 'vitest';
import { archiveOf } from './archive.ts';

test('an archive contains common layers once, and lists the layers of each image', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'archive-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const blobs = { base: 'x'.repeat(1000), one: 'y'.repeat(512), 'config-1': '{}', 'config-2': '{"a":1}' };
  for (const [name, content] of Object.entries(blobs)) writeFileSync(join(directory, name), content);
  const blob = (digest: keyof typeof blobs) => ({ digest, size: blobs[digest].length });
  const images = [
    { reference: 'space/base:1', config: blob('config-1'), layers: [blob('base')] },
    { reference: 'space/one:1', config: blob('config-2'), layers: [blob('base'), blob('one')] },
  ];
  const file = join(directory, 'archive.tar');
  await pipeline(
    archiveOf(images, (digest) => join(directory, digest)),
    createWriteStream(file),
  );

  const tar = (...args: string[]) => execFileSync('tar', [...args, '--file', file], { encoding: 'utf8' });
  expect(tar('--list').trim().split('\n').sort()).toEqual(
    ['base', 'config-1', 'config-2', 'manifest.json', 'one'].sort(),
  );
  const content = execFileSync('tar', ['--extract', '--to-stdout', '--file', file, 'base', 'one'], {
    encoding: 'utf8',
  });
  expect([...content].sort().join('')).toBe(blobs.base + blobs.one);
  const manifest = execFileSync('tar', ['--extract', '--to-stdout', '--file', file, 'manifest.json']);
  expect(JSON.parse(String(manifest))).toEqual([
    { Config: 'config-1', RepoTags: ['space/base:1'], Layers: ['base'] },
    { Config: 'config-2', RepoTags: ['space/one:1'], Layers: ['base', 'one'] },
  ]);
});
