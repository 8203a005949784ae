import { readFileSync } from 'node:fs';

/** One very process: pids are used again, but not with the same start time in the same boot. */
export interface Identity {
  readonly pid: number;
  /** Clock ticks since boot. */
  readonly started: string;
  readonly boot: string;
}

type Read = (path: string) => string;
const readText: Read = (path) => readFileSync(path, 'utf8');

export function identityOf(pid: number, read: Read = readText): Identity | undefined {
  try {
    const fields = statFields(read(`/proc/${pid}/stat`));
    const started = fields[19];
    // A zombie has ended: only its parent has yet to notice.
    if (started === undefined || fields[0] === 'Z') return undefined;
    return { pid, started, boot: read('/proc/sys/kernel/random/boot_id').trim() };
  } catch {
    return undefined; // no such process
  }
}

export function isAlive(identity: Identity, read: Read = readText): boolean {
  const now = identityOf(identity.pid, read);
  return now !== undefined && now.started === identity.started && now.boot === identity.boot;
}

/** The fields after the program's name, which may itself hold spaces and parentheses: state, parent, … */
function statFields(stat: string): readonly string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
