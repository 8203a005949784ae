import { existsSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setCpuWeight } from '../../e2e/cluster/share.ts';
import { eventually } from '../../testing/eventually.ts';

const HIERARCHY = '/sys/fs/cgroup/cpu';
/** The number of processes that are usually busy at the same time. */
const PROCESSES = 8;

/**
 * Moves a server into a cgroup of its own, like a pod, so that its processes share one weight. Otherwise the kernel's
 * autogroups would give each of its sessions a weight of its own. This works only with cgroup v1.
 */
export async function ownGroup(directory: string): Promise<() => Promise<void>> {
  if (process.getuid?.() !== 0 || !existsSync(HIERARCHY)) return async () => undefined;
  const [server = ''] = readFileSync(join(directory, 'data/postmaster.pid'), 'utf8').split('\n');
  const name = `space-bench-${server}`;
  const group = join(HIERARCHY, name);
  await setCpuWeight(name, PROCESSES);
  const children = readFileSync(`/proc/${server}/task/${server}/children`, 'utf8').trim().split(' ');
  for (const pid of [server, ...children]) move(pid, group);
  return () =>
    eventually(() => isEmpty(group), { what: "the end of the server's processes" }).then(() =>
      rmdirSync(group),
    );
}

const isEmpty = (group: string): boolean => readFileSync(join(group, 'cgroup.procs'), 'utf8') === '';

function move(pid: string, group: string): void {
  try {
    writeFileSync(join(group, 'cgroup.procs'), pid);
  } catch (error) {
    // The process has ended meanwhile.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
