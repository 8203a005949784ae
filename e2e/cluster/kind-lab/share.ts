import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** So many processes of a cluster are at work at once when a Space comes up on it. */
const PROCESSES = 32;
const OF_ONE = 1024;

/**
 * With cgroup v1 a group weighs against every process beside it what one of them does: all clusters of the engine would
 * be one process among those of a busy machine, and the kubelet would end an API server that it took for dead.
 */
export async function weigh(group: string, root = '/sys/fs/cgroup'): Promise<void> {
  const hierarchy = join(root, 'cpu');
  if (!existsSync(hierarchy)) return; // cgroup v2, where other processes are in groups, too
  const directory = join(hierarchy, group);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'cpu.shares'), String(PROCESSES * OF_ONE));
}
