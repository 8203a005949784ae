import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { bundle } from '../../scripts/bundle.ts';
import { podCommand } from '../../testing/installed/image.ts';

/** The database broker as its pod runs it. */
export interface BrokerProgram {
  /** Resolves when the broker listens. */
  spawn(environment: Readonly<Record<string, string>>): Promise<BrokerProcess>;
}

export interface BrokerProcess {
  readonly url: string;
  readonly pid: number;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
}

const PROGRAM = resolve('dist/db-broker/main.mjs');

export async function brokerProgram(): Promise<BrokerProgram> {
  await bundle('db-broker');
  const pod = await podCommand('brokers/db/Dockerfile', 'dbBroker');
  return {
    spawn: async (environment) => {
      const child = spawn(process.execPath, [...pod.flags, PROGRAM], {
        env: { PATH: process.env['PATH'], ...pod.environment, ...environment },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const gone = once(child, 'exit').then(() => undefined);
      const port = await new Promise<number>((found, failed) => {
        const lines = createInterface({ input: child.stdout }).on('line', (line) => {
          const said: { msg?: unknown; port?: unknown } = line.includes('"listening"')
            ? JSON.parse(line)
            : {};
          if (said.msg !== 'listening' || typeof said.port !== 'number') return;
          found(said.port);
          // The log has a line for every request, so it is still read, but not parsed.
          lines.close();
          child.stdout.resume();
        });
        gone.then(() => failed(new Error('the broker did not start')));
      });
      return {
        url: `http://127.0.0.1:${port}`,
        pid: child.pid ?? 0,
        kill: async () => {
          child.kill('SIGKILL');
          await gone;
        },
      };
    },
  };
}
