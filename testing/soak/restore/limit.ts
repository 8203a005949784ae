/** What a container may take of the processor at most (`resources.limits.cpu`), for programs that run in none. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../../eventually.ts';

const ROOT = '/sys/fs/cgroup';
/** Version 1 has a hierarchy for processors of its own. */
const FIRST = join(ROOT, 'cpu');
const PERIOD = 100_000;

export interface Limit {
  /** Runs the program with what else is limited here. */
  around(program: readonly string[]): readonly [string, ...string[]];
  /** Has all that runs under it stand still, or go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void>;
  remove(): Promise<void>;
}

/** Needs root. All that is run under it has so many thousandths of one processor together. */
export async function limitTo(name: string, millicores: number): Promise<Limit> {
  const version1 = existsSync(FIRST);
  const group = join(version1 ? FIRST : ROOT, `space-soak-${process.pid}-${name}`);
  await mkdir(group);
  const quota = (millicores * PERIOD) / 1_000;
  if (version1) {
    await writeFile(join(group, 'cpu.cfs_period_us'), String(PERIOD));
    await writeFile(join(group, 'cpu.cfs_quota_us'), String(quota));
  } else await writeFile(join(group, 'cpu.max'), `${quota} ${PERIOD}`);
  const script = 'echo $$ >"$0/cgroup.procs" && exec "$@"';
  return {
    around: (program) => ['/bin/sh', '-c', script, group, ...program],
    signal: async (signal) => {
      const pids = (await readFile(join(group, 'cgroup.procs'), 'utf8')).trim().split('\n');
      for (const pid of pids)
        try {
          if (pid !== '') process.kill(Number(pid), signal);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
        }
    },
    remove: async () => {
      await eventually(
        () =>
          rmdir(group).then(
            () => true,
            () => false,
          ),
        { what: `an empty ${group}` },
      );
    },
  };
}
