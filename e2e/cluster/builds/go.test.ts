import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { OWN, PLATFORMS } from '../platform.ts';
import { builtName, compilerFlags, entryName, goEnvironment, moduleOf } from './go.ts';
import { BUILDS, type Build, KIND_BUILDS, MINIO_BUILD, SEAWEEDFS_BUILD } from './pins.ts';

const runc: Build = { component: 'runc', programs: { 'github.com/opencontainers/runc': 'runc' } };

test('a program is named by the last part of its package that is no version', () => {
  expect(builtName('x', 'go.etcd.io/etcd/server/v3')).toBe('server');
  expect(builtName('x', 'gvisor.dev/gvisor/runsc')).toBe('runsc');
  expect(builtName('x', './coredns')).toBe('coredns');
  expect(builtName('kubernetes', '.')).toBe('kubernetes');
});

test('programs have no symbols, no paths of the machine, and report their versions', () => {
  expect(compilerFlags({ ...runc, variables: { 'a/b.version': 'v1' }, tags: ['seccomp'] })).toEqual([
    '-trimpath',
    '-ldflags=-s -w -X a/b.version=v1',
    '-tags=seccomp',
  ]);
});

test('programs of a node are built for Linux on every machine, and commands for the machine', () => {
  expect(goEnvironment({ ...runc, component: 'gvisor' })['GOOS']).toBe('linux');
  expect(goEnvironment({ ...runc, component: 'kind' })['GOOS']).toBe(process.env['GOOS']);
});

test('programs for another processor are built for Linux, without C', () => {
  const other = OWN === 'linux/amd64' ? 'linux/arm64' : 'linux/amd64';
  const { GOOS, GOARCH, CGO_ENABLED } = goEnvironment(runc, other);
  expect([GOOS, `linux/${GOARCH}`, CGO_ENABLED]).toEqual(['linux', other, '0']);
  expect(() => goEnvironment({ ...runc, cgo: true }, other)).toThrow(`runc is in C, too`);
});

describe('the name of a cache entry', () => {
  test('is the same for the same build', async () => {
    const [build] = BUILDS;
    expect(await entryName(build!)).toBe(await entryName({ ...build! }));
  });

  test('changes with flags, patches and pins', async () => {
    const [build, other] = BUILDS;
    const names = await Promise.all([
      entryName(build!),
      entryName({ ...build!, tags: ['other'] }),
      entryName({ ...build!, patches: [{ file: 'a.go', find: 'a', replace: 'b', times: 1 }] }),
      entryName({ ...build!, component: other!.component }),
      ...PLATFORMS.filter((platform) => platform !== OWN).map((platform) => entryName(build!, platform)),
    ]);
    expect(new Set(names).size).toBe(names.length);
  });
});

test.each([...BUILDS, ...KIND_BUILDS, MINIO_BUILD, SEAWEEDFS_BUILD])(
  '$component has its pins and checksums',
  (build) => {
    for (const file of ['go.mod', 'go.sum']) expect(existsSync(join(moduleOf(build), file))).toBe(true);
  },
);
