import { cp, link, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Step } from '../../progress/index.ts';
import { ensureBuilt, entryName, findBuilt } from '../builds/go.ts';
import { BUILDS, type Build, KUBERNETES_PROGRAMS } from '../builds/pins.ts';

/** Two at a time: compiling fills both halves of a small machine, linking only one. */
const AT_ONCE = 2;

export async function missingBuilds(): Promise<readonly Build[]> {
  const found = await Promise.all(BUILDS.map(async (build) => ({ build, entry: await findBuilt(build) })));
  return found.filter(({ entry }) => entry === undefined).map(({ build }) => build);
}

export interface Programs {
  /** The directory that a component was built into, as soon as it is there. */
  built(component: string): Promise<string>;
  all(): Promise<ReadonlyMap<string, string>>;
}

interface Building {
  readonly logs: string;
  /** Resolved when Debian's packages are there: what uses cgo needs a C compiler. */
  readonly packages: Promise<void>;
  readonly signal: AbortSignal;
}

/** Builds what the cache lacks, the biggest first; each component is a step, and has its own log. */
export function buildPrograms(step: Step, { logs, packages, signal }: Building): Programs {
  const waiting = [...BUILDS];
  const results = new Map<string, PromiseWithResolvers<string>>();
  for (const build of BUILDS) {
    const result = Promise.withResolvers<string>();
    result.promise.catch(() => undefined); // the caller gets the error; an unhandled one must not end the process
    results.set(build.component, result);
  }

  async function worker(): Promise<void> {
    for (let build = waiting.shift(); build !== undefined; build = waiting.shift()) {
      const result = results.get(build.component);
      try {
        result?.resolve(await one(build));
      } catch (error) {
        result?.reject(error);
        throw error;
      }
    }
  }

  async function one(build: Build): Promise<string> {
    const found = await findBuilt(build);
    if (found !== undefined) return found;
    if (build.cgo === true) await packages;
    return step.run(build.component, async (inner) => {
      const log = join(logs, `build-${build.component}.log`);
      inner.explain(log);
      return ensureBuilt(build, { log, signal });
    });
  }

  const workers = Promise.all(Array.from({ length: AT_ONCE }, worker));
  workers.catch(() => undefined);
  return {
    async built(component) {
      const result = results.get(component);
      if (result === undefined) throw new Error(`${component} is not among the builds`);
      // A failed worker does not process the rest of its queue.
      await Promise.race([result.promise, workers.then(() => undefined)]);
      return result.promise;
    },
    async all() {
      await workers;
      const directories = BUILDS.map(
        async ({ component }) => [component, await this.built(component)] as const,
      );
      return new Map(await Promise.all(directories));
    },
  };
}

/**
 * Puts all programs into one directory of the cluster, by hard link where that can be: a running node does not lose its
 * programs when the cache is emptied.
 */
export async function installPrograms(bin: string, built: ReadonlyMap<string, string>): Promise<void> {
  await mkdir(join(bin, '..'), { recursive: true });
  const draft = await mkdtemp(`${bin}.`);
  for (const directory of built.values()) {
    for (const file of await readdir(directory, { recursive: true, withFileTypes: true })) {
      if (!file.isFile() || file.name === 'entry.json') continue;
      const path = join(file.parentPath, file.name);
      const below = path.slice(directory.length + 1);
      const names = below === 'kubernetes' ? KUBERNETES_PROGRAMS : [below];
      for (const name of names) {
        await mkdir(join(draft, name, '..'), { recursive: true });
        await link(path, join(draft, name)).catch(() => cp(path, join(draft, name)));
      }
    }
  }
  await rm(bin, { recursive: true, force: true });
  await rename(draft, bin);
}

/** Names all programs, their pins, patches and flags: a node of another one runs other versions. */
export const programsKey = async (): Promise<string> =>
  (await Promise.all(BUILDS.map((build) => entryName(build)))).join(' ');
