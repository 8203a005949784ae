import { type ChildProcess, spawn } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  openSync,
  readdirSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Component } from './components.ts';

/** What the supervisor reports about a component to the process that waits for the node. */
export interface ComponentStatus {
  readonly pid: number | undefined;
  readonly restarts: number;
  readonly ended: string | undefined;
}

interface Place {
  readonly log: string;
  readonly status: string;
  readonly env: Readonly<Record<string, string>>;
}

const LOG_LIMIT = 16 * 1024 * 1024;
const LOG_CHECK_MS = 10_000;
const FIRST_RESTART_MS = 250;
const LAST_RESTART_MS = 30_000;
/** A component that ran this long has come up: its next end starts the delays from the beginning. */
const STEADY_MS = 60_000;

/** Milliseconds to wait before the next start, after one that ran for `ran` milliseconds. */
export function restartDelay(previous: number, ran: number): number {
  return ran >= STEADY_MS || previous === 0 ? FIRST_RESTART_MS : Math.min(previous * 2, LAST_RESTART_MS);
}

/** Keeps every component running until the process ends; answers the function that starts one. */
export function createSupervisor({ log, status, env }: Place): (component: Component) => void {
  const statuses = new Map<string, ComponentStatus>();

  function tell(name: string, change: Partial<ComponentStatus>): void {
    const before = statuses.get(name) ?? { pid: undefined, restarts: 0, ended: undefined };
    statuses.set(name, { ...before, ...change });
    writeFileSync(`${status}.draft`, JSON.stringify(Object.fromEntries(statuses)));
    renameSync(`${status}.draft`, status);
  }

  function start(component: Component, delay = 0): void {
    const started = Date.now();
    const child = launch(component, join(log, `${component.name}.log`), env);
    tell(component.name, { pid: child.pid });
    let over = false;
    const end = (how: string) => {
      if (over) return; // a program that cannot be started may report both an error and an end
      over = true;
      const restarts = (statuses.get(component.name)?.restarts ?? 0) + 1;
      tell(component.name, { pid: undefined, restarts, ended: how });
      const next = restartDelay(delay, Date.now() - started);
      setTimeout(() => start(component, next), next);
    };
    child.on('error', (error) => end(error.message));
    child.on('exit', (code, signal) => end(signal ?? `exit ${code}`));
  }

  setInterval(() => capLogs(log), LOG_CHECK_MS);

  return (component) => start(component);
}

function launch({ command, env }: Component, log: string, inherited: NodeJS.ProcessEnv): ChildProcess {
  const [program, ...args] = command;
  const out = openSync(log, 'a');
  try {
    return spawn(program, args, { stdio: ['ignore', out, out], env: { ...inherited, ...env } });
  } finally {
    closeSync(out);
  }
}

/** Programs append, so a log can be cut under them: what was in it is kept once. */
function capLogs(directory: string): void {
  try {
    for (const name of readdirSync(directory)) {
      const file = join(directory, name);
      // The API server keeps its own log of requests within bounds.
      if (name === 'audit.log' || !name.endsWith('.log') || statSync(file).size < LOG_LIMIT) continue;
      copyFileSync(file, `${file}.1`);
      truncateSync(file);
    }
  } catch {
    // A full disk, say: the next check may find better.
  }
}
