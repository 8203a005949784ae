import { randomUUID } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { mkdir, rename, symlink } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { ensureBuilt, findBuilt } from './builds/go.ts';
import { BUILDS, type Build, KIND_BUILDS } from './builds/pins.ts';
import type { Tool } from './model.ts';
import { OWN, type Platform } from './platform.ts';

/** The path of a program on the PATH, as a shell would find it. */
export function onPath(program: string, path: string = process.env['PATH'] ?? ''): string | undefined {
  const candidates = path.split(delimiter).filter((directory) => directory !== '');
  return candidates.map((directory) => join(directory, program)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** For your own cluster: your own tools if you have them, otherwise the pinned ones. */
export async function findTool(name: Tool, directory: string): Promise<string> {
  return onPath(name) ?? pinnedTool(name, directory);
}

/** The tool in the version that the cluster is tested with, regardless of the PATH. */
export async function pinnedTool(name: Tool, directory: string): Promise<string> {
  const log = join(directory, `build-${name}.log`);
  await mkdir(directory, { recursive: true });
  const kubernetes = await built('kubernetes', log);
  if (name === 'helm') return join(kubernetes, 'helm');
  // The combined Kubernetes program acts as kubectl if it is called by that name.
  const kubectl = join(directory, 'kubectl');
  const draft = `${kubectl}.${randomUUID()}`;
  await symlink(join(kubernetes, 'kubernetes'), draft);
  await rename(draft, kubectl);
  return kubectl;
}

export const built = (component: string, log: string, platform: Platform = OWN): Promise<string> =>
  ensureBuilt(buildOf(component), { log, platform });

/** True if the cache has all of them, so that nothing is compiled. */
export async function areBuilt(...components: readonly string[]): Promise<boolean> {
  const found = await Promise.all(components.map((component) => findBuilt(buildOf(component))));
  return !found.includes(undefined);
}

function buildOf(component: string): Build {
  const build = [...BUILDS, ...KIND_BUILDS].find((one) => one.component === component);
  if (build === undefined) throw new Error(`${component} is not among the builds`);
  return build;
}
