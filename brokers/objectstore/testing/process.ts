import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A broker that can be killed, and its base URLs. */
export interface BrokerProcess {
  readonly pid: number;
  readonly url: string;
  readonly dataUrl: string;
  /** Resolves when the process is gone, by whatever. */
  readonly gone: Promise<void>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
}

/** Flags of Node, as in the image. */
const FLAGS = ['--min-semi-space-size=8', '--max-semi-space-size=8', '--no-parallel-scavenge'];

/** Starts `child.ts`; `FAILPOINT` and `FAILPOINT_HIT` in the environment say where it kills itself. */
export async function spawnBroker(environment: Readonly<Record<string, string>>): Promise<BrokerProcess> {
  const child = spawn(process.execPath, [...FLAGS, fileURLToPath(new URL('./child.ts', import.meta.url))], {
    env: { PATH: process.env['PATH'], ...environment, LOG_LEVEL: 'error' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints = `${complaints}${chunk}`.slice(-4_000);
  });
  child.stdin.on('error', () => undefined);
  const gone = once(child, 'exit').then(() => undefined);
  const first = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), gone]);
  if (first === undefined) throw new Error(`the broker did not start: ${complaints}`);
  const { port, dataPort } = JSON.parse(String(first[0])) as { port: number; dataPort: number };
  return {
    pid: child.pid ?? 0,
    url: `http://127.0.0.1:${port}`,
    dataUrl: `http://127.0.0.1:${dataPort}`,
    gone,
    kill: async () => {
      child.kill('SIGKILL');
      await gone;
    },
  };
}
