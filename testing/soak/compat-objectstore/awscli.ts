import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { fromPyPi } from '../../installed/python.ts';
import { equal, like, lines, md5, NAMES, type Outcome, outcomeOf, write } from '../outcome.ts';

const run = promisify(execFile);

/** The AWS CLI: its `s3` commands, which copy in parts and in parallel, and `presign`. */
export async function withAwsCli(
  requirement: string,
  directory: string,
  url: string,
  keys: S3Keys,
): Promise<readonly Outcome[]> {
  const packages = await fromPyPi(requirement);
  const tree = join(directory, 'aws-tree');
  const back = join(directory, 'aws-back');
  mkdirSync(back);
  write(tree, Object.fromEntries(NAMES.map((name, i) => [name, randomBytes(i * 40_000)])));
  write(tree, { 'large.bin': randomBytes(24 * 1024 * 1024) });
  const names = [...NAMES, 'large.bin'];
  const config = join(directory, 'aws-config');
  // Without this setting, `presign` uses the previous signature version.
  writeFileSync(config, '[default]\ns3 =\n  signature_version = s3v4\n');
  const env = {
    PATH: process.env['PATH'],
    HOME: directory,
    LANG: 'C.UTF-8',
    PYTHONPATH: packages,
    AWS_ACCESS_KEY_ID: keys.AccessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.SecretAccessKey,
    AWS_DEFAULT_REGION: 'us-east-1',
    AWS_ENDPOINT_URL: url,
    AWS_CONFIG_FILE: config,
  };
  const aws = async (...args: readonly string[]) =>
    (await run('python3', ['-B', join(packages, 'bin/aws'), ...args], { env, maxBuffer: 2 ** 26 })).stdout;
  const cases: Readonly<Record<string, () => Promise<void>>> = {
    'list buckets': async () => equal((await aws('s3', 'ls')).match(/\S+$/gm), ['data', 'shared']),
    'copy a tree up': async () =>
      void (await aws('s3', 'cp', '--recursive', tree, 's3://data/aws', '--no-progress')),
    'list recursively': async () =>
      equal(lines(await aws('s3', 'ls', '--recursive', 's3://data/aws/')).length, names.length),
    'copy the tree down': async () => {
      await aws('s3', 'cp', '--recursive', 's3://data/aws', back, '--no-progress');
      for (const name of names) equal(md5(join(back, name)), md5(join(tree, name)));
    },
    'synchronize identical trees': async () => equal(await aws('s3', 'sync', tree, 's3://data/aws'), ''),
    'copy on the server in parts': async () =>
      void (await aws('s3', 'cp', 's3://data/aws/large.bin', 's3://shared/large.bin', '--no-progress')),
    'move on the server': async () =>
      void (await aws('s3', 'mv', 's3://shared/large.bin', 's3://data/moved.bin', '--no-progress')),
    'write with requested encryption and storage class': async () => {
      const asked = ['--sse', 'AES256', '--storage-class', 'STANDARD', '--acl', 'bucket-owner-full-control'];
      await aws('s3', 'cp', join(tree, 'plain.txt'), 's3://data/asked', '--no-progress', ...asked);
    },
    'read by a presigned URL': async () => {
      const signed = (await aws('s3', 'presign', 's3://data/aws/a+b', '--expires-in', '60')).trim();
      const answer = await fetch(signed);
      equal([answer.status, (await answer.arrayBuffer()).byteLength], [200, NAMES.indexOf('a+b') * 40_000]);
    },
    'make a directory': async () => {
      await aws('s3api', 'put-object', '--bucket', 'data', '--key', 'made/');
      like(await aws('s3', 'ls', 's3://data/'), /PRE made\//);
    },
    attributes: async () => {
      const asked = ['--object-attributes', 'ETag', 'ObjectSize', 'ObjectParts'];
      const found = await aws(
        's3api',
        'get-object-attributes',
        '--bucket',
        'data',
        '--key',
        'moved.bin',
        ...asked,
      );
      equal(JSON.parse(found).ObjectSize, 24 * 1024 * 1024);
    },
    'remove all': async () => {
      await aws('s3', 'rm', '--recursive', 's3://data/');
      equal(await aws('s3', 'ls', 's3://data/').catch(() => ''), '');
    },
  };
  const outcomes: Outcome[] = [];
  // Each case depends on the one before.
  for (const [name, act] of Object.entries(cases)) outcomes.push(await outcomeOf('AWS CLI', name, act));
  return outcomes;
}
