import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { built } from '../e2e/cluster/tools.ts';
import { freePort } from './ports.ts';

/** A real S3 server (versitygw over a directory) on loopback. */
export interface S3Server {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Its directory, in which a bucket is a directory and an object is a file. */
  readonly directory: string;
  readonly pid: number;
  makeBucket(name: string): void;
  /** Sends SIGKILL, as a crash; the objects stay. */
  kill(): Promise<void>;
  /** Starts it again with the same objects and port. */
  start(): Promise<void>;
  /** Restarts it with the same objects and another key as its only one. */
  rekey(): Promise<void>;
  /** Stops it and removes the objects. */
  remove(): Promise<void>;
}

export interface S3Options {
  /** Serves TLS with this certificate and key, PEM files. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Buckets may be versioned. */
  readonly versions?: boolean;
  /** It refuses all requests that would change something. */
  readonly readOnly?: boolean;
  /** An existing directory, on another disk, for its objects; it is not removed. */
  readonly directory?: string;
  /** It imitates a server on another machine: its objects are in memory, and it has a low priority. */
  readonly elsewhere?: boolean;
}

/** Starts the S3 server of the chart, which is built once into the cache of cluster programs. */
export async function startS3Server(options: S3Options = {}): Promise<S3Server> {
  const root = mkdtempSync(join(options.elsewhere === true ? '/dev/shm' : tmpdir(), 'space-s3-'));
  const directory = join(options.directory ?? root, 'objects');
  mkdirSync(directory);
  mkdirSync(join(root, 'tmp'));
  const versions = join(root, 'versions');
  mkdirSync(versions);
  const log = join(root, 'server.log');
  const program = join(await built('versitygw', join(root, 'build.log')), 'versitygw');
  const port = await freePort();
  const newKey = () => ({
    id: `TEST${randomBytes(8).toString('hex').toUpperCase()}`,
    secret: randomBytes(30).toString('base64url'),
  });
  let key = newKey();
  const endpoint = `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const { tls } = options;
  let running: ChildProcess | undefined;

  const start = async () => {
    const args = [
      ...['--port', `127.0.0.1:${port}`, '--keep-alive'],
      ...(tls === undefined ? [] : ['--cert', tls.cert, '--key', tls.key]),
      ...(options.readOnly === true ? ['--readonly'] : []),
      'posix',
      ...(options.versions === true ? ['--versioning-dir', versions] : []),
      directory,
    ];
    const nice = options.elsewhere === true ? '19' : '0';
    const child = spawn(
      '/bin/sh',
      ['-c', `exec nice -n ${nice} "$0" "$@" >>"$S3_LOG" 2>&1`, program, ...args],
      {
        cwd: root,
        stdio: 'ignore',
        env: {
          PATH: process.env['PATH'],
          TMPDIR: join(root, 'tmp'),
          S3_LOG: log,
          ROOT_ACCESS_KEY: key.id,
          ROOT_SECRET_KEY: key.secret,
        },
      },
    );
    running = child;
    await untilAnswers(endpoint, child, log);
  };
  const end = async (signal: NodeJS.Signals) => {
    const child = running;
    running = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  };
  const remove = async () => {
    await end('SIGKILL');
    rmSync(root, { recursive: true, force: true });
  };
  try {
    await start();
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    endpoint,
    region: 'us-east-1',
    get accessKeyId() {
      return key.id;
    },
    get secretAccessKey() {
      return key.secret;
    },
    directory,
    get pid() {
      return running?.pid ?? 0;
    },
    makeBucket: (name) => {
      mkdirSync(join(directory, name));
    },
    kill: () => end('SIGKILL'),
    start,
    rekey: async () => {
      await end('SIGKILL');
      key = newKey();
      await start();
    },
    remove,
  };
}

async function untilAnswers(endpoint: string, child: ChildProcess, log: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      await (await fetch(endpoint)).arrayBuffer();
      return;
    } catch (cause) {
      // An error about an unknown certificate shows that the server answers.
      if (cause instanceof Error && isTls(cause.cause)) return;
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error(`the S3 server did not start: ${readFileSync(log, 'utf8').slice(-2_000)}`, { cause });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

function isTls(cause: unknown): boolean {
  return (
    cause instanceof Error &&
    'code' in cause &&
    /CERT|SELF_SIGNED|ALTNAME|UNABLE_TO_/.test(String(cause.code))
  );
}
