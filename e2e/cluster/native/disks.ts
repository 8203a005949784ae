import { execFileSync } from 'node:child_process';
import { existsSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { cacheRoot } from '../builds/cache.ts';

const GIB = 1024 ** 3;

/** A folder that will grow, and by how much at most. */
export interface Growth {
  readonly path: string;
  readonly gib: number;
}

/** A file system, and all that will grow on it. */
export interface Disk {
  readonly paths: readonly string[];
  readonly freeBytes: number;
  readonly neededGib: number;
}

export interface FileSystem {
  /** The same for two folders on one file system. */
  readonly id: number;
  readonly freeBytes: number;
}

/**
 * Where a cluster grows. Figures: the caches of Go after everything was built from nothing take 5.6 and 2.5 GiB, the
 * cache of programs and image layers 1.9, a cluster with a Space 2.1 for each node; each is rounded up.
 */
export function growths(stateRoot: string, mustBuild: boolean, nodes: number): readonly Growth[] {
  const state = { path: stateRoot, gib: 3 * nodes };
  if (!mustBuild) return [state, { path: cacheRoot(), gib: 1 }];
  return [
    state,
    { path: cacheRoot(), gib: 3 },
    ...['GOCACHE', 'GOMODCACHE'].flatMap((name, index) => {
      const path = goVariable(name);
      return path === undefined ? [] : [{ path, gib: [7, 3][index] ?? 0 }];
    }),
  ];
}

function goVariable(name: string): string | undefined {
  try {
    return execFileSync('go', ['env', name], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return undefined; // no Go, which is reported separately
  }
}

/** What each file system must have free, when folders share one too. */
export function disksOf(
  growing: readonly Growth[],
  look: (path: string) => FileSystem = fileSystemOf,
): Disk[] {
  const disks = new Map<number, Disk>();
  for (const { path, gib } of growing) {
    const { id, freeBytes } = look(path);
    const known = disks.get(id);
    disks.set(id, {
      paths: [...(known?.paths ?? []), path],
      freeBytes,
      neededGib: (known?.neededGib ?? 0) + gib,
    });
  }
  return [...disks.values()];
}

export const isFull = ({ freeBytes, neededGib }: Disk): boolean => freeBytes < neededGib * GIB;

export const gibibytes = (bytes: number): string => (bytes / GIB).toFixed(1);

/** The file system of the nearest existing folder. */
function fileSystemOf(path: string): FileSystem {
  let at = path;
  while (!existsSync(at) && at !== '/') at = dirname(at);
  const { bavail, bsize } = statfsSync(at);
  return { id: statSync(at).dev, freeBytes: bavail * bsize };
}
