import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { fromDebian } from '../../installed/debian.ts';
import { equal, Missing, NAMES, type Outcome, outcomeOf } from '../outcome.ts';

const run = promisify(execFile);
const MIB = 1024 * 1024;

/** Mounting a file system needs root and FUSE. */
const canMount = (): boolean => existsSync('/dev/fuse') && process.getuid?.() === 0;

/** s3fs mounts a bucket as a directory: files, directories, modes and times are objects with metadata. */
export async function withS3fs(
  directory: string,
  url: string,
  keys: S3Keys,
): Promise<{ readonly version: string; readonly outcomes: readonly Outcome[] }> {
  if (!canMount()) throw new Missing('this machine cannot mount a FUSE file system');
  const { program, env: libraries } = await fromDebian('s3fs', 'usr/bin/s3fs');
  const at = join(directory, 's3fs');
  const password = join(directory, 's3fs-keys');
  await mkdir(at);
  await writeFile(password, `${keys.AccessKeyId}:${keys.SecretAccessKey}\n`, { mode: 0o600 });
  const env = { ...libraries, PATH: process.env['PATH'], HOME: directory };
  const options = [`passwd_file=${password}`, `url=${url}`, 'use_path_request_style', 'endpoint=us-east-1'];
  const child = spawn(program, ['data', at, '-f', ...options.flatMap((one) => ['-o', one])], { env });
  const ended = once(child, 'close');
  const complaint = Promise.all([text(child.stdout), text(child.stderr)]);
  try {
    const root = (await stat(directory)).dev;
    const limit = performance.now() + 60_000;
    while ((await stat(at)).dev === root) {
      if (child.exitCode !== null || performance.now() > limit)
        throw new Error(`s3fs does not mount: ${(await complaint).join('').slice(-600)}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const large = randomBytes(24 * MIB);
    const cases: Readonly<Record<string, () => Promise<void>>> = {
      'make directories': async () => {
        await mkdir(join(at, 'a/b'), { recursive: true });
        equal([await readdir(join(at, 'a')), (await stat(join(at, 'a/b'))).isDirectory()], [['b'], true]);
      },
      'write and read files': async () => {
        await writeFile(join(at, 'a/b/file'), 'hello');
        equal(await readFile(join(at, 'a/b/file'), 'utf8'), 'hello');
        await writeFile(join(at, 'empty'), '');
        equal((await stat(join(at, 'empty'))).size, 0);
      },
      'write in parts': async () => {
        await writeFile(join(at, 'large'), large);
        equal((await readFile(join(at, 'large'))).equals(large), true);
      },
      'names that need escaping': async () => {
        await mkdir(join(at, 'names/deep/er'), { recursive: true });
        for (const name of NAMES) await writeFile(join(at, 'names', name), name);
        for (const name of NAMES) equal(await readFile(join(at, 'names', name), 'utf8'), name);
      },
      'change modes and times': async () => {
        await chmod(join(at, 'a/b/file'), 0o640);
        await chmod(join(at, 'a/b'), 0o700);
        await utimes(join(at, 'a/b/file'), 1_580_000_000, 1_580_000_000);
        const [file, dir] = [await stat(join(at, 'a/b/file')), await stat(join(at, 'a/b'))];
        equal([file.mode & 0o777, dir.mode & 0o777, file.mtimeMs], [0o640, 0o700, 1_580_000_000_000]);
      },
      truncate: async () => {
        await truncate(join(at, 'a/b/file'), 4);
        equal(await readFile(join(at, 'a/b/file'), 'utf8'), 'hell');
      },
      'rename files and directories': async () => {
        await rename(join(at, 'a/b/file'), join(at, 'moved'));
        await rename(join(at, 'large'), join(at, 'larger'));
        await rename(join(at, 'a'), join(at, 'c'));
        equal(await readFile(join(at, 'moved'), 'utf8'), 'hell');
        equal(await readdir(join(at, 'c')), ['b']);
      },
      'a directory outlives its files': async () => {
        await writeFile(join(at, 'c/b/only'), 'x');
        await rm(join(at, 'c/b/only'));
        equal(await readdir(join(at, 'c/b')), []);
      },
      'stat of a missing file': async () => {
        const code = await stat(join(at, 'none')).catch((error: NodeJS.ErrnoException) => error.code);
        equal(code, 'ENOENT');
      },
      'remove all': async () => {
        await rmdir(join(at, 'c/b'));
        for (const name of await readdir(at)) await rm(join(at, name), { recursive: true });
        equal(await readdir(at), []);
      },
    };
    const outcomes: Outcome[] = [];
    // Each case depends on the one before.
    for (const [name, act] of Object.entries(cases)) outcomes.push(await outcomeOf('s3fs-fuse', name, act));
    const said = (await run(program, ['--version'], { env })).stdout;
    return { version: /V(\S+)/.exec(said)?.[1] ?? 'unknown', outcomes };
  } finally {
    await run('umount', [at]).catch(() => run('umount', ['-l', at]).catch(() => undefined));
    child.kill('SIGTERM');
    await ended;
  }
}
