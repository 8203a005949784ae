import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { fromPyPi } from '../../installed/python.ts';
import { equal, lines, md5, NAMES, type Outcome, outcomeOf, write } from '../outcome.ts';

const run = promisify(execFile);

export async function withS3cmd(
  requirement: string,
  directory: string,
  url: string,
  keys: S3Keys,
): Promise<readonly Outcome[]> {
  const packages = await fromPyPi(requirement);
  const tree = join(directory, 's3cmd-tree');
  const back = join(directory, 's3cmd-back');
  mkdirSync(back);
  write(tree, Object.fromEntries(NAMES.map((name, i) => [name, randomBytes(i * 40_000)])));
  write(tree, { 'large.bin': randomBytes(24 * 1024 * 1024) });
  const names = [...NAMES, 'large.bin'];
  const host = new URL(url).host;
  const s3cmd = async (...args: readonly string[]) => {
    const flags = [
      ...['--access_key', keys.AccessKeyId, '--secret_key', keys.SecretAccessKey, '--no-ssl'],
      ...['--host', host, '--host-bucket', host, '--region', 'us-east-1', '--config', '/dev/null'],
    ];
    const env = { PATH: process.env['PATH'], HOME: directory, LANG: 'C.UTF-8', PYTHONPATH: packages };
    return (await run('python3', [join(packages, 'bin/s3cmd'), ...flags, ...args], { env })).stdout;
  };
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    'list buckets': async () => equal((await s3cmd('ls')).match(/s3:\/\/\w+/g), ['s3://data', 's3://shared']),
    'put a tree': async () => void (await s3cmd('put', '--recursive', `${tree}/`, 's3://data/tree/')),
    'list recursively': async () =>
      equal(lines(await s3cmd('ls', '--recursive', 's3://data/tree/')).length, names.length),
    'get the tree': async () => {
      await s3cmd('get', '--recursive', 's3://data/tree/', `${back}/`);
      for (const name of names) equal(md5(join(back, name)), md5(join(tree, name)));
    },
    info: async () => void (await s3cmd('info', 's3://data/tree/large.bin')),
    'copy on the server': async () =>
      void (await s3cmd('cp', 's3://data/tree/large.bin', 's3://shared/large.bin')),
    'move on the server': async () =>
      void (await s3cmd('mv', 's3://shared/large.bin', 's3://data/moved.bin')),
    'delete one': async () => void (await s3cmd('del', 's3://data/moved.bin')),
    'delete all': async () => {
      await s3cmd('del', '--recursive', '--force', 's3://data/tree/');
      equal(await s3cmd('ls', '--recursive', 's3://data/'), '');
    },
  };
  const outcomes: Outcome[] = [];
  // Each case depends on the one before.
  for (const [name, act] of Object.entries(cases)) outcomes.push(await outcomeOf('s3cmd', name, act));
  return outcomes;
}
