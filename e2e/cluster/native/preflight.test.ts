import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { type Facts, isEnough, listenerOn, missingPackages, PACKAGES, problemsOf } from './preflight.ts';

const fine: Facts = {
  name: 'space',
  runningOn: undefined,
  uid: 0,
  platform: 'linux',
  arch: 'x64',
  go: 'go version go1.26.8 linux/amd64',
  mustBuild: true,
  missingPackages: [],
  hasApt: true,
  disks: [{ paths: ['/var/lib/space/space'], freeBytes: 50 * 1024 ** 3, neededGib: 15 }],
  port: 17_443,
  portHolder: undefined,
  cgroups: 'v1',
  nodes: 1,
  had: undefined,
};

test('a machine that has everything is accepted', () => {
  expect(problemsOf(fine)).toEqual([]);
});

test.each<[string, Partial<Facts>, RegExp, RegExp]>([
  ['fewer nodes than it has', { nodes: 2, had: 3 }, /has 3 nodes, and none is taken away/, /npm run down/],
  ['no root', { uid: 1000 }, /needs root/, /as root/],
  ['another architecture', { arch: 'arm64' }, /this is linux on arm64/, /Docker engine/],
  ['another system', { platform: 'darwin' }, /this is darwin/, /--kubeconfig/],
  ['no Go', { go: undefined }, /Go is missing/, /Install Go 1\.26\.6 or later/],
  ['an old Go', { go: 'go version go1.22.1 linux/amd64' }, /too old: go version go1\.22\.1/, /1\.26\.6/],
  [
    'no apt for missing programs',
    { hasApt: false, missingPackages: ['ipset', 'tini'] },
    /missing/,
    /ipset, tini/,
  ],
  [
    'a full disk',
    { disks: [{ paths: ['/state', '/cache'], freeBytes: 3 * 1024 ** 3, neededGib: 15 }] },
    /for \/state, \/cache: 3\.0 GiB are free, 15 are needed/,
    /Free some/,
  ],
  [
    'a port in use',
    { portHolder: 'process 12: nginx' },
    /17443 .* in use by process 12: nginx/,
    /--api-port/,
  ],
  ['a name that is none', { name: 'La b' }, /"La b" cannot be the name/, /small letters/],
  ['another port than it has', { runningOn: 17_000 }, /runs already, .* port 17000/, /Leave out --api-port/],
  ['no cgroups', { cgroups: 'none' }, /cgroup controllers/, /Mount them/],
])('%s is reported with what to do', (_, facts, wrong, mend) => {
  const [problem, ...others] = problemsOf({ ...fine, ...facts });
  expect(others).toEqual([]);
  expect(problem?.wrong).toMatch(wrong);
  expect(problem?.mend).toMatch(mend);
});

test('all problems are reported at once', () => {
  const disks = [{ paths: ['/'], freeBytes: 0, neededGib: 1 }];
  expect(problemsOf({ ...fine, uid: 1, go: undefined, disks })).toHaveLength(3);
});

test('Go is not required when nothing has to be built', () => {
  expect(problemsOf({ ...fine, go: undefined, mustBuild: false })).toEqual([]);
});

test('programs that apt can install are no problem', () => {
  expect(problemsOf({ ...fine, missingPackages: ['buildah'] })).toEqual([]);
});

test.each([
  ['go version go1.26.6 linux/amd64', true],
  ['go version go1.27 linux/amd64', true],
  ['go version go2.0 linux/amd64', true],
  ['go version go1.26.5 linux/amd64', false],
  ['go version go1.26 linux/amd64', false],
  ['go version devel linux/amd64', false],
])('%s is enough: %s', (version, enough) => {
  expect(isEnough(version)).toBe(enough);
});

test('a missing program is reported by its package', () => {
  expect(missingPackages(() => true)).toEqual([]);
  expect(missingPackages((path) => !path.endsWith('/buildah'))).toEqual(['buildah']);
  expect(missingPackages(() => false)).toHaveLength(PACKAGES.length);
});

test.runIf(process.platform === 'linux')(
  'the program that listens on a port is reported by name and pid',
  async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    expect(listenerOn(port)).toContain(`process ${process.pid}: `);
    await new Promise((resolve) => server.close(resolve));
    expect(listenerOn(port)).toBeUndefined();
  },
);
