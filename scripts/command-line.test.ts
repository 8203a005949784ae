import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makePki } from '../testing/certificates.ts';

const ROOT = resolve(import.meta.dirname, '..');

/** Without a cluster: what a program does not refuse in time must not be done to one that runs on this machine. */
const NO_CLUSTER = { ...process.env, SPACE_CLUSTER: 'nowhere' };

const folder = mkdtempSync(join(tmpdir(), 'space-command-line-'));
const IDENTITY = join(folder, 'identity');
writeFileSync(IDENTITY, 'AGE-SECRET-KEY-1NOTHING\n');
afterAll(() => rmSync(folder, { recursive: true }));

it.each([
  ['e2e/down.ts', 'npm run down'],
  ['e2e/undelete/main.ts', 'npm run undelete'],
  ['e2e/verify/main.ts', 'npm run verify'],
  ['e2e/restore/main.ts', 'npm run restore'],
  ['e2e/cluster/main.ts', 'e2e/cluster/main.ts'],
  ['testing/soak/main.ts', 'npm run soak'],
  ['bench/main.ts', 'npm run bench'],
  ['scripts/test.ts', 'npm test'],
  ['e2e/air-gap.ts', 'npm run air-gap'],
  ['e2e/move/main.ts', 'npm run move'],
])('%s names an unknown option, and prints its usage', (program, command) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, '--mistyped'], {
    cwd: ROOT,
    encoding: 'utf8',
    env: NO_CLUSTER,
  });
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toContain("'--mistyped'");
  expect(stderr).toContain(`usage: `);
  expect(stderr).toContain(command);
  // No stack.
  expect(stderr).not.toMatch(/^ +at /m);
});

const WHOLE = ['--space', 'home', '--values', '/nowhere/values', '--key', '/nowhere/key'];
const restored = (...args: readonly string[]) =>
  spawnSync(process.execPath, ['e2e/restore/main.ts', ...args], {
    cwd: ROOT,
    encoding: 'utf8',
    env: NO_CLUSTER,
  });

it.each([
  { file: 'an identity', named: '--identity /nowhere/identity', args: ['--secret', 'egress-keys'] },
  { file: 'an identity', named: '--identity /nowhere/identity', args: ['--capsule', 'household'] },
  { file: 'an identity', named: '--identity /nowhere/identity', args: WHOLE },
  { file: 'a file of values', named: '--values /nowhere/values', identity: IDENTITY, args: WHOLE },
  {
    file: 'a kubeconfig',
    named: '--kubeconfig /nowhere/config',
    identity: IDENTITY,
    args: ['--secret', 'egress-keys', '--kubeconfig', '/nowhere/config'],
  },
])('a restore with a missing $file names it: $named', ({ named, identity, args }) => {
  const { status, stderr } = restored('--identity', identity ?? '/nowhere/identity', ...args);
  expect(status).toBe(1);
  expect(stderr).toBe(`${named}: the file cannot be read (it does not exist)\n`);
});

it('a restore with a file that is not an identity describes an identity', () => {
  const { status, stderr } = restored('--secret', 'egress-keys', '--identity', 'package.json');
  expect(status).toBe(1);
  expect(stderr).toBe('--identity package.json: the file has no line AGE-SECRET-KEY-1…\n');
});

it('a restore with an invalid kubeconfig says that it cannot be used', () => {
  const { status, stderr } = restored(
    '--secret',
    'keys',
    '--identity',
    IDENTITY,
    '--kubeconfig',
    'package.json',
  );
  expect(status).toBe(1);
  expect(stderr).not.toBe('');
  expect(stderr).not.toMatch(/^ +at /m);
});

it.each([
  { args: [], missing: '--identity FILE is missing' },
  { args: ['--space', 'home', '--identity', 'FILE'], missing: '--values FILE and --key FILE are missing' },
  {
    args: [...WHOLE, '--identity', 'FILE', '--as', 'attic'],
    missing: '--as can only be used with --capsule',
  },
  {
    args: ['--capsule', 'household', '--secret', 'egress-keys', '--identity', 'FILE'],
    missing: '--capsule and --secret cannot be used together',
  },
  {
    args: ['--capsule', 'household', '--identity', 'FILE', '--drill'],
    missing: '--drill can only be used for a whole Space',
  },
  {
    args: [...WHOLE, '--secret', 'egress-keys', '--identity', 'FILE', '--drill'],
    missing: '--drill can only be used for a whole Space',
  },
])('a restore that lacks an option names it: $missing', ({ args, missing }) => {
  const { status, stderr } = restored(...args);
  expect(status).toBe(2);
  expect(stderr.split('\n')[0]).toContain(missing);
  expect(stderr).toContain('usage: npm run restore');
});

it.each([
  { option: '--kubeconfig', file: '/nowhere/config' },
  { option: '--key', file: '/nowhere/key' },
])('verify with a missing file of $option says so, and not that something is left', ({ option, file }) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['e2e/verify/main.ts', option, file], {
    cwd: ROOT,
    encoding: 'utf8',
    env: NO_CLUSTER,
  });
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toBe(`${option} ${file}: the file cannot be read\n`);
});

it.each([
  ['--report', '/nowhere/report.json', 'the folder /nowhere does not exist, or you may not write to it'],
  ['--report', '/', 'this is a folder, name a file in it'],
  ['--report', 'reports/', 'this is a folder, name a file in it'],
  ['--outside', '203.0.113.7:65536', 'write ADDRESS:PORT, such as 203.0.113.7:443'],
  ['--outside', '203.0.113.7:0', 'write ADDRESS:PORT, such as 203.0.113.7:443'],
])('verify refuses %s %s before it looks for a cluster', (option, value, reason) => {
  const { status, stderr } = spawnSync(process.execPath, ['e2e/verify/main.ts', option, value], {
    cwd: ROOT,
    encoding: 'utf8',
    env: NO_CLUSTER,
  });
  expect([status, stderr]).toEqual([2, `${option} ${value}: ${reason}\n`]);
});

it.each(['2026-06-31T10:30:00Z', '2025-02-29T10:30:00+01:00', '2026-11-21T10:30:00', '31 Dec 2026 10:30Z'])(
  'a restore to the moment %s, which does not exist or has no zone, is refused',
  (moment) => {
    const { status, stderr } = restored('--secret', 'keys', '--identity', IDENTITY, '--at', moment);
    expect(status).toBe(1);
    expect(stderr).toBe(`--at ${moment}: write a time with its zone, such as 2026-11-21T10:30:00Z\n`);
  },
);

it('kubectl for a cluster that is not up says how to start it', () => {
  const args = ['e2e/tool.ts', 'kubectl', '--cluster', 'nowhere', 'get', 'pods'];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stderr).toBe(
    'The cluster nowhere is not running. Bring it up with: npm run up -- --cluster nowhere\n',
  );
});

it('images for an air gap are not built for a missing folder', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['e2e/air-gap.ts', '/nowhere/space.tar'], {
    cwd: ROOT,
    encoding: 'utf8',
    env: { PATH: '/nowhere' },
  });
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^\/nowhere\/space\.tar: the folder \/nowhere does not exist/);
});

it.each([
  'bench/main.ts',
  'e2e/air-gap.ts',
  'e2e/cluster/kind-lab/nightly.ts',
  'e2e/cluster/main.ts',
  'e2e/down.ts',
  'e2e/move/main.ts',
  'e2e/restore/main.ts',
  'e2e/undelete/main.ts',
  'e2e/up.ts',
  'e2e/verify/main.ts',
  'scripts/test.ts',
  'testing/soak/main.ts',
])('%s --help prints the usage, and does nothing', (program) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, '--help'], {
    cwd: ROOT,
    encoding: 'utf8',
    // Whatever is begun in spite of it finds no program of the machine.
    env: { PATH: '/nowhere' },
    timeout: 60_000,
  });
  expect([status, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^usage: /);
});

it('the gateway of a developer names the file that it cannot read', () => {
  const args = ['brokers/egress/dev.ts', '--manifest', 'nofile.yaml'];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
  expect(status).toBe(2);
  expect(stderr).toMatch(/^--manifest nofile\.yaml: the file cannot be read\nusage: /);
});

it('up with a missing kubeconfig names it, before it asks for a registry', () => {
  const args = ['e2e/up.ts', '--kubeconfig', '/nowhere/config'];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stderr).toContain('/nowhere/config cannot be read');
  expect(stderr).not.toContain('registry');
});

it('a move in a cluster without a Space is refused in one sentence', async () => {
  const pki = await makePki();
  const empty = createServer(await pki.issue('localhost'), (_, response) => {
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"kind":"Status","code":404}');
  });
  await new Promise<void>((resolve) => void empty.listen(0, '127.0.0.1', () => resolve()));
  const server = `https://127.0.0.1:${(empty.address() as AddressInfo).port}`;
  const kubeconfig = join(folder, 'empty');
  const named = (kind: string, value: object) => [{ name: 'empty', [kind]: value }];
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      'current-context': 'empty',
      clusters: named('cluster', { server, 'insecure-skip-tls-verify': true }),
      users: named('user', {}),
      contexts: named('context', { cluster: 'empty', user: 'empty' }),
    }),
  );
  const args = ['e2e/move/main.ts', 'household', 'b', '--kubeconfig', kubeconfig];
  const said = await new Promise<string>((resolve) =>
    execFile(process.execPath, args, { cwd: ROOT }, (_, out, stderr) => resolve(out + stderr)),
  );
  empty.close();
  await pki.remove();
  expect(said.match(/there is no Deployment db-broker/g), said).toHaveLength(1);
});
