/** A processor limit as that of a container (`resources.limits.cpu`), for programs outside of containers. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../../eventually.ts';
import type { AsShipped } from './as-shipped.ts';

const ROOT = '/sys/fs/cgroup';
/** Version 1 has a hierarchy for limits and one for accounting, which may be the same. */
const FIRST = join(ROOT, 'cpu');
const COUNTING = join(ROOT, 'cpuacct');
const PERIOD = 100_000;

export interface Limit {
  /** The command that runs the program under this limit. */
  around(program: readonly string[]): readonly [string, ...string[]];
  /** Stops or continues all programs under the limit. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void>;
  /** The processor time of all programs under the limit, in seconds. */
  taken(): Promise<number>;
  remove(): Promise<void>;
}

/**
 * Creates a limit; needs root. All programs under it together get this many thousandths of one processor, and if others want the
 * processor, too, this part of what one of them gets.
 */
export async function limitTo(
  name: string,
  { millicores, part }: Pick<AsShipped, 'millicores' | 'part'>,
): Promise<Limit> {
  const version1 = existsSync(FIRST);
  const called = `space-soak-${process.pid}-${name}`;
  const group = join(version1 ? FIRST : ROOT, called);
  const counting = version1 ? join(COUNTING, called) : group;
  const groups = [...new Set([group, counting])];
  for (const path of groups) await mkdir(path, { recursive: true });
  const quota = (millicores * PERIOD) / 1_000;
  if (version1) {
    await writeFile(join(group, 'cpu.cfs_period_us'), String(PERIOD));
    await writeFile(join(group, 'cpu.cfs_quota_us'), String(quota));
    await writeFile(join(group, 'cpu.shares'), String(Math.round(1_024 * part)));
  } else {
    await writeFile(join(group, 'cpu.max'), `${quota} ${PERIOD}`);
    await writeFile(join(group, 'cpu.weight'), String(Math.round(100 * part)));
  }
  const script = 'echo $$ >"$0/cgroup.procs" && echo $$ >"$1/cgroup.procs" && shift && exec "$@"';
  return {
    around: (program) => ['/bin/sh', '-c', script, group, counting, ...program],
    signal: async (signal) => {
      const pids = (await readFile(join(group, 'cgroup.procs'), 'utf8')).trim().split('\n');
      for (const pid of pids)
        try {
          if (pid !== '') process.kill(Number(pid), signal);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
        }
    },
    taken: async () => {
      if (version1) return Number(await readFile(join(counting, 'cpuacct.usage'), 'utf8')) / 1e9;
      const stat = await readFile(join(group, 'cpu.stat'), 'utf8');
      return Number(/^usage_usec (\d+)$/m.exec(stat)?.[1]) / 1e6;
    },
    remove: async () => {
      for (const path of groups)
        await eventually(
          () =>
            rmdir(path).then(
              () => true,
              () => !existsSync(path),
            ),
          { what: `the cgroup ${path} is empty` },
        );
    },
  };
}
