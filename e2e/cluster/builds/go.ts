import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { namesOf, OWN, type Platform } from '../platform.ts';
import { ClusterProblem } from '../problem.ts';
import { ProgramFailed, run } from '../run.ts';
import { cacheRoot, ensureEntry, findEntry, withScratch } from './cache.ts';
import type { Build, Patch } from './pins.ts';

const MODULES = join(import.meta.dirname, '..', 'modules');

/** The directory of its `go.mod`. */
export const moduleOf = ({ component, module = component }: Build): string => join(MODULES, module);

/** Name of the cache entry: what is built (sources, pins, checksums) and how (flags, patches). */
export async function entryName(build: Build, platform: Platform = OWN): Promise<string> {
  const directory = moduleOf(build);
  const arch = platform === OWN ? process.arch : namesOf(platform).node;
  const hash = createHash('sha256').update(JSON.stringify([arch, build]));
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const file of files.sort())
    hash.update(`\0${relative(directory, file)}\0`).update(await readFile(file));
  return `${build.component}-${hash.digest('hex').slice(0, 16)}`;
}

const binaries = () => join(cacheRoot(), 'bin');

export async function findBuilt(build: Build): Promise<string | undefined> {
  return findEntry(binaries(), await entryName(build));
}

/** The directory with the component's programs, which are built if they are not in the cache. */
export async function ensureBuilt(
  build: Build,
  { log, signal, platform = OWN }: { log: string; signal?: AbortSignal; platform?: Platform },
): Promise<string> {
  const name = await entryName(build, platform);
  return ensureEntry(binaries(), name, (draft) =>
    withScratch(build.component, async (work) => {
      await cp(moduleOf(build), work, { recursive: true });
      const env = goEnvironment(build, platform);
      const go = (...args: readonly string[]) =>
        run(['go', ...args], { cwd: work, log, env, ...(signal && { signal }) }).catch((error: unknown) =>
          explain(error, build, work, env),
        );
      const vendored = (build.patches ?? []).length > 0;
      if (vendored) await go('mod', 'vendor');
      for (const patch of build.patches ?? []) await applyPatch(work, patch);
      await mkdir(join(work, 'out'));
      await go(
        'build',
        vendored ? '-mod=vendor' : '-mod=readonly',
        ...compilerFlags(build),
        ...['-o', `${join(work, 'out')}/`],
        ...Object.keys(build.programs),
      );
      await collect(build, work, draft);
    }),
  );
}

/** Explains why Go failed: a module that cannot be downloaded is no error of the source, and has another remedy. */
async function explain(failed: unknown, build: Build, work: string, env: NodeJS.ProcessEnv): Promise<never> {
  // If there is a cause, Go did not run, or was told to end.
  if (!(failed instanceof ProgramFailed) || failed.cause !== undefined) throw failed;
  const list = ['go', 'list', '-mod=readonly', '-deps', '-f', '', ...Object.keys(build.programs)] as const;
  const cause = await run(list, { cwd: work, env }).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (cause === undefined) throw failed;
  const proxy = (await run(['go', 'env', 'GOPROXY'], { env }).catch(() => '')).trim();
  throw new ClusterProblem(
    `${build.component} cannot be built: Go cannot get a module of it.`,
    `Let Go reach the modules by way of GOPROXY (now ${proxy}), and run the command again.`,
    { cause },
  );
}

/** Components that run only on nodes, and therefore always on Linux. */
const ON_NODES: readonly string[] = ['calico', 'gvisor'];

export function goEnvironment(build: Build, platform: Platform = OWN): NodeJS.ProcessEnv {
  if (platform !== OWN && build.cgo === true)
    throw new Error(`${build.component} is in C, too, and not made for ${platform} here`);
  return {
    ...process.env,
    CGO_ENABLED: build.cgo === true ? '1' : '0',
    GOFLAGS: '-buildvcs=false',
    GOWORK: 'off',
    // A node runs Linux, even if a Docker engine runs it in a virtual machine.
    ...(ON_NODES.includes(build.component) && { GOOS: 'linux' }),
    ...(platform !== OWN && { GOOS: 'linux', GOARCH: namesOf(platform).debian }),
  };
}

export function compilerFlags({ variables = {}, tags = [] }: Build): readonly string[] {
  const values = Object.entries(variables).map(([name, value]) => `-X ${name}=${value}`);
  return [
    '-trimpath',
    `-ldflags=${['-s', '-w', ...values].join(' ')}`,
    ...(tags.length === 0 ? [] : [`-tags=${tags.join(',')}`]),
  ];
}

/** The name that `go build` gives a program: the last part of its package that is no major version. */
export function builtName(component: string, packagePath: string): string {
  if (packagePath === '.') return component;
  const parts = packagePath.split('/').filter((part) => !/^v\d+$/.test(part));
  return parts.at(-1) ?? component;
}

async function collect(build: Build, work: string, draft: string): Promise<void> {
  for (const [packagePath, file] of Object.entries(build.programs)) {
    const target = join(draft, file);
    await mkdir(dirname(target), { recursive: true });
    await rename(join(work, 'out', builtName(build.component, packagePath)), target);
  }
  for (const { module, path, as } of build.data ?? []) {
    const directory = await run(['go', 'list', '-mod=mod', '-m', '-f', '{{.Dir}}', module], {
      cwd: work,
      env: goEnvironment(build),
    });
    await cp(join(directory.trim(), path), join(draft, as), { recursive: true });
  }
}

async function applyPatch(work: string, { file, find, replace, times }: Patch): Promise<void> {
  const path = join(work, 'vendor', file);
  const lines = (await readFile(path, 'utf8')).split('\n');
  const patched = lines.map((line) => line.replaceAll(new RegExp(find, 'g'), replace));
  const changed = lines.filter((line, index) => line !== patched[index]).length;
  if (changed !== times) throw new Error(`the patch of ${file} changes ${changed} lines, not ${times}`);
  await writeFile(path, patched.join('\n'));
}
