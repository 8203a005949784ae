import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';

export interface NodeSettings {
  /** The directory for data and logs of all nodes. */
  readonly directory: string;
  readonly count: number;
  /** The only key of the cluster. */
  readonly key: { readonly id: string; readonly secret: string };
}

/** One server of a cluster. */
export interface Node {
  readonly name: string;
  /** The port of its S3 listener. */
  readonly port: number;
  /** Starts it with the data that it had when it was killed. */
  start(): void;
  /** Kills it with SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>;
  /** The end of its log. */
  said(): string;
}

export interface Command {
  readonly name: string;
  readonly port: number;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly log: string;
}

export function nodeOf({ name, port, program, args, env, cwd, log }: Command): Node {
  let running: ChildProcess | undefined;
  return {
    name,
    port,
    start: () => {
      const file = openSync(log, 'a');
      running = spawn(program, args, {
        cwd,
        stdio: ['ignore', file, file],
        env: { PATH: process.env['PATH'], HOME: cwd, TZ: 'UTC', ...env },
      });
      closeSync(file);
    },
    kill: async () => {
      const child = running;
      running = undefined;
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
    said: () => {
      try {
        return readFileSync(log, 'utf8').slice(-1_000);
      } catch {
        return ''; // It was never started.
      }
    },
  };
}

interface Prepared {
  readonly nodes: readonly Node[];
  /** Ends further programs that the nodes need. */
  close(): Promise<void>;
}

/** A kind of S3 server that has nodes. */
export interface Product {
  readonly title: string;
  readonly count: number;
  /** The path that a node answers with 200 when it can serve. */
  readonly health: string;
  prepare(settings: NodeSettings): Promise<Prepared>;
}
