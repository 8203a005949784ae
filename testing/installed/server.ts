import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import type { Installed } from '../../testing/installed/debian.ts';
import { freePort } from '../../testing/ports.ts';

/** A server of another project on loopback, in a process of its own. */
export interface Server {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

const LIMIT_MS = 60_000;
const PATIENCE_MS = 5_000;

/** Starts it and waits until it listens. If it ends before that, its output goes to standard error. */
export async function startServer(
  name: string,
  { program, env }: Installed,
  argsFor: (port: number) => Promise<readonly string[]>,
): Promise<Server> {
  const port = await freePort();
  const child = spawn(program, await argsFor(port), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-4_000);
    });
  const gone = new Promise<void>((resolve) =>
    child.once('exit', () => resolve()).once('error', () => resolve()),
  );
  // It gets SIGTERM first, so that it can end its children.
  const stop = async () => {
    child.kill('SIGTERM');
    const hard = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    await gone;
    clearTimeout(hard);
    child.stdout.destroy();
    child.stderr.destroy();
  };
  const end = performance.now() + LIMIT_MS;
  while (!(await listens(port))) {
    if (child.exitCode !== null || child.pid === undefined || performance.now() > end) {
      await stop();
      throw new Error(`${name} does not listen: ${said}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { name, port, pid: child.pid ?? 0, stop };
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
