import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A server in a process of its own, whose use of processor and memory can be measured. */
export interface Program {
  readonly pid: number;
  /** Seconds of processor time so far. */
  cpuSeconds(): number;
  /** Its peak memory in MiB. */
  peakMib(): number;
  stop(): Promise<void>;
}

const ENDS_WITHIN_MS = 10_000;
/** Clock ticks a second, 100 on all usual Linux machines. */
const TICKS = 100;

export function watchProcess(pid: number): Pick<Program, 'cpuSeconds' | 'peakMib'> {
  return {
    cpuSeconds: () => {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) / TICKS;
    },
    peakMib: () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
  };
}

/** Starts a program and waits until it answers HTTP at the address, with any status. */
export async function startProgram(
  command: readonly [string, ...string[]],
  env: Readonly<Record<string, string>>,
  address: string,
): Promise<Program> {
  const [file, ...args] = command;
  const child = spawn(file, args, {
    stdio: 'ignore',
    env: { PATH: process.env['PATH'], HOME: '/tmp', ...env },
  });
  try {
    await untilAnswers(address, child);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  return {
    pid: child.pid ?? 0,
    ...watchProcess(child.pid ?? 0),
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = new Promise((resolve) => child.once('exit', resolve));
      // Not killed at once: it would write no profile.
      child.kill('SIGTERM');
      const hard = setTimeout(() => child.kill('SIGKILL'), ENDS_WITHIN_MS);
      await gone;
      clearTimeout(hard);
    },
  };
}

async function untilAnswers(address: string, child: ChildProcess): Promise<void> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    try {
      await (await fetch(address)).arrayBuffer();
      return;
    } catch (cause) {
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error(`nothing answers at ${address}`, { cause });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
