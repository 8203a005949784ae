import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { basesOf, imageKey, onBases } from './key.ts';

test.each([
  ['FROM node:26-trixie-slim\nCOPY a /a', ['node:26-trixie-slim']],
  ['FROM scratch\nADD root.tar /', []],
  ['FROM --platform=linux/amd64 debian:trixie-slim AS made\nFROM made\n', ['debian:trixie-slim']],
  [
    'from debian:trixie-slim as a\nFROM node:26-trixie-slim as b\nFROM a\nFROM debian:trixie-slim',
    ['debian:trixie-slim', 'node:26-trixie-slim'],
  ],
])('the bases of %j are %j', (dockerfile, bases) => {
  expect(basesOf(dockerfile)).toEqual(bases.map((reference) => ({ reference, toBuild: false })));
});

test('only the base of the stage `build` is for the machine that builds', () => {
  expect(basesOf('FROM debian:trixie-slim AS build\nRUN a\nFROM debian:trixie-slim\nCOPY a a')).toEqual([
    { reference: 'debian:trixie-slim', toBuild: true },
    { reference: 'debian:trixie-slim', toBuild: false },
  ]);
});

test('a Dockerfile on other bases is the same but for their names', () => {
  const dockerfile =
    '# FROM a\nFROM --platform=x debian:trixie-slim AS build\nRUN a\n\nFROM build AS b\nFROM scratch\n';
  expect(onBases(dockerfile, ({ reference }) => `own/${reference}`)).toBe(
    dockerfile.replace('debian', 'own/debian'),
  );
});

describe('the key of an image', () => {
  let context: string;
  const key = (dockerfile = 'FROM scratch', bases: string[] = []) => imageKey(dockerfile, context, bases);

  beforeEach(() => {
    context = mkdtempSync(join(tmpdir(), 'key-'));
    mkdirSync(join(context, 'app'));
    writeFileSync(join(context, 'app', 'main.mjs'), 'console.log(1)');
  });
  afterEach(() => rmSync(context, { recursive: true }));

  test('is the same for the same content', async () => {
    expect(await key()).toBe(await key());
  });

  test('changes with the Dockerfile, a base, a file, its name and its mode', async () => {
    const keys = [await key(), await key('FROM scratch\nUSER 1'), await key('FROM scratch', ['base'])];
    const file = join(context, 'app', 'main.mjs');
    chmodSync(file, 0o755);
    keys.push(await key());
    writeFileSync(file, 'console.log(2)');
    keys.push(await key());
    renameSync(file, join(context, 'app', 'other.mjs'));
    keys.push(await key());
    expect(new Set(keys).size).toBe(keys.length);
  });
});
