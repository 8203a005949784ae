/**
 * A machine whose engine and programs only answer as the real ones do, to test failures before and around a cluster.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureEntry } from '../../builds/cache.ts';
import { entryName } from '../../builds/go.ts';
import { BUILDS, KIND_BUILDS } from '../../builds/pins.ts';
import { clusterDirectory } from '../../record.ts';
import { onPath } from '../../tools.ts';

/** Points at which an `up` can be made to wait, so that it can be killed there. */
export type Pause = 'version' | 'network' | 'node' | 'copy';

interface Ended {
  readonly code: number | null;
  /** The whole output. */
  readonly said: string;
}

export interface FakeMachine extends AsyncDisposable {
  /** The cluster's name, which no other test and no cluster of this machine uses. */
  readonly name: string;
  /** A directory whose `containers` and `networks` have a file for each. */
  readonly engine: string;
  /** The lock file of the command that works on the cluster. */
  readonly lock: string;
  cluster(act: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended>;
  /** Starts `up`, and kills it with all that it has started once it reaches this point. */
  killedUp(pause: Pause): Promise<void>;
  /** The containers and networks of the engine. */
  remains(): Promise<readonly string[]>;
}

const PROGRAMS = {
  kind: ['kind'],
  gvisor: ['runsc', 'containerd-shim-runsc-v1'],
  calico: ['calico-felix', 'cni/calico'],
  kubernetes: ['kubernetes', 'helm'],
} as const;

/** The programs that the two scripts use. A PATH with only these has no Go. */
const TOOLS = ['sh', 'cut', 'grep', 'ls', 'rm', 'sed', 'sha256sum', 'sleep', 'touch'];

export async function fakeMachine(
  built: readonly (keyof typeof PROGRAMS)[] = ['kind', 'gvisor', 'calico', 'kubernetes'],
): Promise<FakeMachine> {
  const root = await mkdtemp(join(tmpdir(), 'fake-engine-'));
  const name = `test-${root.slice(-6).toLowerCase()}`;
  const [engine, path, cache] = [join(root, 'engine'), join(root, 'path'), join(root, 'cache')];
  for (const directory of [join(engine, 'containers'), join(engine, 'networks'), path])
    await mkdir(directory, { recursive: true });
  for (const tool of TOOLS) await symlink(onPath(tool) ?? tool, join(path, tool));
  await put('docker.sh', join(path, 'docker'));
  for (const component of built) await fill(join(cache, 'space', 'bin'), component);

  const main = [join(import.meta.dirname, '..', '..', 'main.ts')];
  const start = (act: readonly string[], env: NodeJS.ProcessEnv) =>
    spawn(process.execPath, [...main, ...act, '--name', name], {
      detached: true, // a group of its own, which can be killed as a whole
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, PATH: path, XDG_CACHE_HOME: cache, FAKE_ENGINE: engine, ...env },
    });
  return {
    name,
    engine,
    lock: join(cache, 'space', 'kind', `${name}.lock`),
    async cluster(act, env = {}) {
      const child = start(act, env);
      let said = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
      const [code] = (await once(child, 'close')) as [number | null];
      return { code, said };
    },
    async killedUp(pause) {
      const child = start(['up'], { FAKE_PAUSE: pause });
      const ended = once(child, 'close');
      let said = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
      while (!existsSync(join(engine, 'paused'))) {
        if (child.exitCode !== null) throw new Error(`up ended before ${pause}: ${said}`);
        await delay(20);
      }
      process.kill(-(child.pid ?? 0), 'SIGKILL');
      await ended;
      await rm(join(engine, 'paused'));
    },
    async remains() {
      const kinds = ['containers', 'networks'];
      const found = kinds.map(async (kind) =>
        (await readdir(join(engine, kind))).map((one) => `${kind}/${one}`),
      );
      return (await Promise.all(found)).flat().toSorted();
    },
    async [Symbol.asyncDispose]() {
      await rm(root, { recursive: true, force: true });
      await rm(clusterDirectory(name), { recursive: true, force: true });
    },
  };
}

async function put(script: string, file: string): Promise<void> {
  await copyFile(join(import.meta.dirname, script), file);
  await chmod(file, 0o755);
}

/** Creates the cache's entry of a component as if it had been compiled. */
async function fill(root: string, component: keyof typeof PROGRAMS): Promise<void> {
  const build = [...BUILDS, ...KIND_BUILDS].find((one) => one.component === component);
  if (build === undefined) throw new Error(`${component} is not among the builds`);
  await ensureEntry(root, await entryName(build), async (draft) => {
    for (const program of PROGRAMS[component]) {
      const file = join(draft, program);
      await mkdir(dirname(file), { recursive: true });
      if (component === 'kind') await put('kind.sh', file);
      else await writeFile(file, '#!/bin/sh\n', { mode: 0o755 });
    }
  });
}

export const readEngine = (machine: FakeMachine, file: string): Promise<string> =>
  readFile(join(machine.engine, file), 'utf8');
