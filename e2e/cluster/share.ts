import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const OF_ONE = 1024;

/**
 * With cgroup v1 a group has the weight of a single process beside it. A whole cluster would count as one process
 * among those of a busy machine: probes would fail, and the kubelet would end the API server.
 */
export async function setCpuWeight(group: string, processes: number, root = '/sys/fs/cgroup'): Promise<void> {
  const hierarchy = join(root, 'cpu');
  if (!existsSync(hierarchy)) return; // cgroup v2, where other processes are in groups, too
  const directory = join(hierarchy, group);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'cpu.shares'), String(processes * OF_ONE));
}
