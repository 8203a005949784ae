import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { fromDebian } from '../../installed/debian.ts';
import { equal, lines, md5, NAMES, type Outcome, outcomeOf, write } from '../outcome.ts';

const run = promisify(execFile);

/** restic stores backups with minio-go. */
export async function withRestic(
  directory: string,
  url: string,
  keys: S3Keys,
): Promise<{ readonly version: string; readonly outcomes: readonly Outcome[] }> {
  const { program, env: libraries } = await fromDebian('restic', 'usr/bin/restic');
  const tree = join(directory, 'restic-tree');
  const back = join(directory, 'restic-back');
  write(tree, Object.fromEntries(NAMES.map((name, i) => [name, randomBytes(i * 40_000)])));
  write(tree, { 'large.bin': randomBytes(24 * 1024 * 1024) });
  const env = {
    ...libraries,
    PATH: process.env['PATH'],
    HOME: directory,
    RESTIC_REPOSITORY: `s3:${url}/data/backups`,
    RESTIC_PASSWORD: 'a password of a test',
    AWS_ACCESS_KEY_ID: keys.AccessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.SecretAccessKey,
  };
  const restic = async (...args: readonly string[]) =>
    (await run(program, [...args, '--quiet', '--no-cache'], { env })).stdout;
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    'make a repository': async () => void (await restic('init')),
    'back a tree up': async () => void (await restic('backup', tree)),
    'back it up again': async () => void (await restic('backup', tree)),
    'list the backups': async () => equal(JSON.parse(await restic('snapshots', '--json')).length, 2),
    'check all that is stored': async () => void (await restic('check', '--read-data')),
    restore: async () => {
      await restic('restore', 'latest', '--target', back);
      for (const name of [...NAMES, 'large.bin']) equal(md5(join(back, tree, name)), md5(join(tree, name)));
    },
    'forget and prune': async () => void (await restic('forget', '--keep-last', '1', '--prune')),
    'unlock and list locks': async () => {
      await restic('unlock');
      equal(lines(await restic('list', 'locks')), []);
    },
  };
  const outcomes: Outcome[] = [];
  for (const [name, act] of Object.entries(cases)) outcomes.push(await outcomeOf('restic', name, act));
  rmSync(back, { recursive: true, force: true });
  const [, version = 'unknown'] =
    /restic (\S+)/.exec((await run(program, ['version'], { env })).stdout) ?? [];
  return { version, outcomes };
}
