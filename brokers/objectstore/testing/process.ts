import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A broker that can be killed, and its base URL. */
export interface BrokerProcess {
  readonly url: string;
  /** Resolves when the process is gone, by whatever. */
  readonly gone: Promise<void>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
}

/** Starts `child.ts`; `FAILPOINT` and `FAILPOINT_HIT` in the environment say where it kills itself. */
export async function spawnBroker(environment: Readonly<Record<string, string>>): Promise<BrokerProcess> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./child.ts', import.meta.url))], {
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
  const { port } = JSON.parse(String(first[0])) as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    gone,
    kill: async () => {
      child.kill('SIGKILL');
      await gone;
    },
  };
}
