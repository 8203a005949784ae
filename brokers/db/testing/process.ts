import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { DRIVER_PATH } from './broker.ts';

/** A broker that can be killed, and its base URL. */
export interface BrokerProcess {
  readonly url: string;
  readonly pid: number;
  /** Bytes that are still held after a full collection. */
  held(): Promise<number>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Resolves when the process is gone, by whatever. */
  readonly gone: Promise<void>;
}

/** The broker as one file, as in the image, so that many can be started quickly. */
export interface BrokerProgram {
  spawn(environment: Readonly<Record<string, string>>): Promise<BrokerProcess>;
  remove(): void;
}

/** One file that a child process runs. */
export interface Program {
  readonly path: string;
  readonly directory: string;
  remove(): void;
}

export async function bundleBroker(): Promise<BrokerProgram> {
  const { path, directory, remove } = await bundle(new URL('./child.ts', import.meta.url));
  return {
    spawn: (environment) =>
      spawnBroker(path, { ...environment, DRIVER_PATH, NODE_COMPILE_CACHE: join(directory, 'cache') }),
    remove,
  };
}

/** The program of the administrator's command `move`, to be killed. */
export const bundleAdministrator = (): Promise<Program> =>
  bundle(new URL('./move-child.ts', import.meta.url));

async function bundle(entry: URL): Promise<Program> {
  const directory = mkdtempSync(join(tmpdir(), 'space-broker-'));
  const path = join(directory, 'child.mjs');
  await build({
    entryPoints: [fileURLToPath(entry)],
    outfile: path,
    bundle: true,
    platform: 'node',
    format: 'esm',
    // Some dependencies are CommonJS and call `require`.
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
  });
  return { path, directory, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

async function spawnBroker(
  program: string,
  environment: Readonly<Record<string, string>>,
): Promise<BrokerProcess> {
  const child: ChildProcess = spawn(process.execPath, ['--max-semi-space-size=1', program], {
    // The environment is the image's.
    env: { PATH: process.env['PATH'], MALLOC_ARENA_MAX: '1', ...environment, LOG_LEVEL: 'error' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let complaints = '';
  child.stderr?.on('data', (chunk) => {
    complaints = `${complaints}${chunk}`.slice(-4_000);
  });
  child.stdin?.on('error', () => undefined);
  const gone = once(child, 'exit').then(() => undefined);
  if (child.stdout === null) throw new Error('no standard output');
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([once(lines, 'line'), gone]);
  if (first === undefined) throw new Error(`the broker did not start: ${complaints}`);
  const { port } = JSON.parse(String(first[0])) as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid ?? 0,
    held: async () => {
      const answer = once(lines, 'line');
      child.stdin?.write('held\n');
      const { held } = JSON.parse(String((await answer)[0])) as { held: number };
      return held;
    },
    gone,
    kill: async () => {
      child.kill('SIGKILL');
      await gone;
    },
  };
}
