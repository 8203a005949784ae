import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

interface Run {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string | Readable;
  /** The program's output is also appended to this file. */
  readonly log?: string;
  readonly signal?: AbortSignal;
}

/** A program failed; the message contains the end of its output. */
export class ProgramFailed extends Error {
  override readonly name = 'ProgramFailed';

  constructor(command: readonly string[], ending: string, said: string, options?: ErrorOptions) {
    const shown = command.join(' ');
    const words = said.trim().split('\n').slice(-5).join('\n');
    super(
      `${shown.length > 160 ? `${shown.slice(0, 160)}…` : shown}: ${ending}${words === '' ? '' : `\n${words}`}`,
      options,
    );
  }
}

/** Runs a program to its end and returns its standard output. */
export async function run(command: readonly [string, ...string[]], options: Run = {}): Promise<string> {
  const [program, ...args] = command;
  const log = options.log === undefined ? undefined : openSync(options.log, 'a');
  const child = spawn(program, args, {
    stdio: [options.input === undefined ? 'ignore' : 'pipe', log === undefined ? 'pipe' : log, log ?? 'pipe'],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  if (log !== undefined) closeSync(log);
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on('data', (chunk) => out.push(chunk));
  child.stderr?.on('data', (chunk) => err.push(chunk));
  const ended = new Promise<void>((resolve, reject) => {
    child.on('error', (cause) => reject(new ProgramFailed(command, 'did not run', '', { cause })));
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new ProgramFailed(command, signal ?? `exit ${code}`, String(Buffer.concat(err))));
    });
  });
  // A program that ends before it has read its input breaks the pipe; its exit code says more than EPIPE does.
  const fed = feed(child.stdin, options.input).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  await Promise.all([ended, fed]);
  return String(Buffer.concat(out));
}

async function feed(
  stdin: NodeJS.WritableStream | null,
  input: string | Readable | undefined,
): Promise<void> {
  if (stdin === null || input === undefined) return;
  await pipeline(typeof input === 'string' ? [input] : input, stdin);
}
