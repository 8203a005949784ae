import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { setCpuWeight } from '../share.ts';
import { cgroupVersion } from './preflight.ts';

const ROOT = '/sys/fs/cgroup';
/** The weight of its pods, which is less than that of the whole node, whose own programs run beside them. */
const PODS = 8;

/** Version 1 has a hierarchy for each controller (and `unified`, which has none), version 2 one for all. */
async function hierarchies(): Promise<readonly string[]> {
  if (cgroupVersion() === 'v2') return [ROOT];
  const entries = await readdir(ROOT, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => join(ROOT, entry.name));
}

/** Creates the parent of all pods' cgroups, which the kubelet expects to exist. */
export async function makeCgroups(cgroup: string): Promise<void> {
  for (const hierarchy of await hierarchies()) {
    const group = hierarchy + cgroup;
    await mkdir(group, { recursive: true });
    if (cgroupVersion() === 'v2') {
      const controllers = (await readFile(join(ROOT, 'cgroup.controllers'), 'utf8')).trim().split(' ');
      const all = controllers.map((one) => `+${one}`).join(' ');
      await writeFile(join(ROOT, 'cgroup.subtree_control'), all);
      await writeFile(join(group, 'cgroup.subtree_control'), all);
    } else if (existsSync(join(hierarchy, 'cpuset.cpus'))) {
      // A new cpuset is empty, and nothing can run in it.
      for (const file of ['cpuset.cpus', 'cpuset.mems'])
        await writeFile(join(group, file), await readFile(join(hierarchy, file)));
    }
  }
  await setCpuWeight(cgroup, PODS);
}

/** Removes the cgroups, the deepest first. Their processes are dead, but the kernel may take a moment to notice. */
export async function removeCgroups(cgroup: string, within: number): Promise<void> {
  const deadline = Date.now() + within;
  for (;;) {
    const left: string[] = [];
    for (const hierarchy of await hierarchies()) {
      const group = hierarchy + cgroup;
      if (existsSync(group) && !(await removeTree(group))) left.push(group);
    }
    if (left.length === 0) return;
    if (Date.now() > deadline) throw new Error(`cgroups are still in use: ${left.join(', ')}`);
    await delay(50);
  }
}

async function removeTree(group: string): Promise<boolean> {
  try {
    const entries = await readdir(group, { withFileTypes: true });
    const below = entries.filter((entry) => entry.isDirectory()).map((entry) => join(group, entry.name));
    const gone = await Promise.all(below.map(removeTree));
    if (!gone.every(Boolean)) return false;
    await rmdir(group);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}
