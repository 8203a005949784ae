import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newAssistant } from '../brokers/objectstore/testing/assistant.ts';
import { setStage } from '../brokers/objectstore/testing/stage.ts';
import { ensureBuilt } from '../e2e/cluster/builds/go.ts';
import { RCLONE } from './objectstore/contestants.ts';
import type { Report } from './report.ts';

/**
 * S3 clients that are not ours, unmodified, against the S3 front of the broker: boto3 and s3cmd from PyPI, rclone from
 * its Go module. The AWS SDK for JavaScript is in `npm test`. Needs `python3` with `venv`.
 */

const PYTHON = ['boto3==1.44.5', 's3cmd==2.4.0'];
const run$ = promisify(execFile);

interface Outcome {
  readonly by: string;
  readonly case: string;
  readonly failed?: string;
}

/** Nothing here takes long, so `--quick` changes nothing. */
export async function run(_options: { readonly quick: boolean }): Promise<Report> {
  const directory = mkdtempSync(join(tmpdir(), 'space-compat-'));
  const stage = await setStage();
  try {
    const log = join(directory, 'build.log');
    const [bin, rclone] = await Promise.all([
      installPython(join(directory, 'python')),
      ensureBuilt(RCLONE, { log }).then((built) => join(built, 'rclone')),
    ]);
    const keys = async () =>
      (await (await newAssistant(stage.broker)).call('GET', '/v1/s3/credentials')).json;
    const outcomes = [
      ...(await boto3(bin, stage.broker.dataUrl, await keys())),
      ...(await withRclone(rclone, directory, stage.broker.dataUrl, await keys())),
      ...(await withS3cmd(bin, directory, stage.broker.dataUrl, await keys())),
    ];
    const failed = outcomes.filter((one) => one.failed !== undefined);
    return {
      title: 'S3 clients against the front',
      rows: ['boto3', 'rclone', 's3cmd'].map((by) => ({
        client: by,
        cases: outcomes.filter((one) => one.by === by).length,
        failed: failed.filter((one) => one.by === by).length,
      })),
      figures: { cases: outcomes.length, failed: failed.length },
      notes: failed.map((one) => `${one.by}: ${one.case}: ${one.failed}`),
    };
  } finally {
    await stage.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Keys {
  readonly AccessKeyId: string;
  readonly SecretAccessKey: string;
}

async function installPython(directory: string): Promise<string> {
  await run$('python3', ['-m', 'venv', directory]);
  await run$(join(directory, 'bin/pip'), ['install', '--quiet', ...PYTHON]);
  return join(directory, 'bin');
}

async function boto3(bin: string, url: string, keys: Keys): Promise<readonly Outcome[]> {
  const env = {
    PATH: process.env['PATH'],
    AWS_ACCESS_KEY_ID: keys.AccessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.SecretAccessKey,
  };
  const script = join(import.meta.dirname, 'objectstore/compat.py');
  const { stdout } = await run$(join(bin, 'python'), [script, url], { env, maxBuffer: 16 * 1024 * 1024 });
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => ({ by: 'boto3', ...(JSON.parse(line) as { case: string; failed?: string }) }));
}

/** Runs steps one after the other; each is a case. */
async function steps(
  by: string,
  all: Readonly<Record<string, () => Promise<void>>>,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [name, act] of Object.entries(all)) {
    const failed = await act().then(
      () => undefined,
      (error: unknown) => String(error).slice(-400),
    );
    outcomes.push({ by, case: name, ...(failed === undefined ? {} : { failed }) });
  }
  return outcomes;
}

function equal(found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected))
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`.slice(0, 300));
}

const NAMES = ['plain.txt', 'with space', 'ä-ö', 'a+b', '100%', "q'uote", '(a)!', 'deep/er/still'];

/** A directory with files of several names and sizes. */
function makeTree(directory: string): readonly string[] {
  const files = NAMES.map((name, i) => ({ name, bytes: randomBytes(i * 40_000) }));
  files.push({ name: 'large.bin', bytes: randomBytes(24 * 1024 * 1024) });
  for (const { name, bytes } of files) {
    mkdirSync(join(directory, name, '..'), { recursive: true });
    writeFileSync(join(directory, name), bytes);
  }
  return files.map(({ name }) => name);
}

const md5 = (file: string) => createHash('md5').update(readFileSync(file)).digest('hex');

async function withRclone(
  program: string,
  directory: string,
  url: string,
  keys: Keys,
): Promise<readonly Outcome[]> {
  const tree = join(directory, 'rclone-tree');
  const back = join(directory, 'rclone-back');
  const names = makeTree(tree);
  const remote = `:s3,provider=Other,endpoint="${url}",access_key_id=${keys.AccessKeyId},secret_access_key=${keys.SecretAccessKey}:`;
  const rclone = async (...args: readonly string[]) => {
    const flags = [
      '--config',
      '/dev/null',
      '--s3-chunk-size',
      '8M',
      '--s3-upload-cutoff',
      '16M',
      '--retries',
      '1',
    ];
    const env = { PATH: process.env['PATH'], HOME: directory };
    return (await run$(program, [...args, ...flags], { env, maxBuffer: 64 * 1024 * 1024 })).stdout;
  };
  return steps('rclone', {
    'list buckets': async () =>
      equal((await rclone('lsf', remote)).split('\n').filter(Boolean), ['data/', 'shared/']),
    'sync up': async () => void (await rclone('sync', tree, `${remote}data/tree`)),
    'check against the source': async () => void (await rclone('check', tree, `${remote}data/tree`)),
    'check by download': async () => void (await rclone('check', '--download', tree, `${remote}data/tree`)),
    'list recursively': async () => {
      const found = (await rclone('lsf', '-R', '--files-only', `${remote}data/tree`))
        .split('\n')
        .filter(Boolean);
      equal(found.sort(), [...names].sort());
    },
    'sync up again, with nothing to do': async () => void (await rclone('sync', tree, `${remote}data/tree`)),
    'copy down': async () => {
      await rclone('copy', `${remote}data/tree`, back);
      for (const name of names) equal(md5(join(back, name)), md5(join(tree, name)));
    },
    'a range by offset': async () => {
      const text = await rclone('cat', '--offset', '2', '--count', '3', `${remote}data/tree/plain.txt`);
      equal(text, '');
    },
    'copy on the server': async () =>
      void (await rclone('copyto', `${remote}data/tree/large.bin`, `${remote}shared/large.bin`)),
    'move on the server': async () =>
      void (await rclone('moveto', `${remote}shared/large.bin`, `${remote}data/moved.bin`)),
    'moved away': async () => equal(await rclone('lsf', `${remote}shared`), ''),
    'delete one': async () => void (await rclone('deletefile', `${remote}data/moved.bin`)),
    'sync what was deleted': async () => {
      rmSync(join(tree, 'plain.txt'));
      await rclone('sync', tree, `${remote}data/tree`);
      await rclone('check', tree, `${remote}data/tree`);
    },
    purge: async () => {
      await rclone('purge', `${remote}data/tree`);
      equal(await rclone('lsf', '-R', `${remote}data`), '');
    },
  });
}

async function withS3cmd(
  bin: string,
  directory: string,
  url: string,
  keys: Keys,
): Promise<readonly Outcome[]> {
  const tree = join(directory, 's3cmd-tree');
  const back = join(directory, 's3cmd-back');
  await mkdir(back, { recursive: true });
  const names = makeTree(tree);
  const host = new URL(url).host;
  const s3cmd = async (...args: readonly string[]) => {
    const flags = [
      ...['--access_key', keys.AccessKeyId, '--secret_key', keys.SecretAccessKey, '--no-ssl'],
      ...['--host', host, '--host-bucket', host, '--region', 'us-east-1', '--config', '/dev/null'],
    ];
    const env = { PATH: process.env['PATH'], HOME: directory, LANG: 'C.UTF-8' };
    return (await run$(join(bin, 'python'), [join(bin, 's3cmd'), ...flags, ...args], { env })).stdout;
  };
  return steps('s3cmd', {
    'list buckets': async () => equal((await s3cmd('ls')).match(/s3:\/\/\w+/g), ['s3://data', 's3://shared']),
    'put a tree': async () => void (await s3cmd('put', '--recursive', `${tree}/`, 's3://data/tree/')),
    'list recursively': async () => {
      const found = (await s3cmd('ls', '--recursive', 's3://data/tree/')).split('\n').filter(Boolean);
      equal(found.length, names.length);
    },
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
  });
}
