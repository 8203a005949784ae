import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { request } from 'undici';
import { eventually } from '../../testing/eventually.ts';
import { podCommand } from '../../testing/installed/image.ts';
import { freePort } from '../../testing/ports.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Starts the program of the image with the image's settings. */
export async function startAsShipped(variables: Readonly<Record<string, string>>) {
  const bundled = spawnSync(process.execPath, ['scripts/bundle.ts', 'console'], { cwd: ROOT });
  if (bundled.status !== 0) throw new Error(bundled.stderr.toString());
  const port = await freePort();
  const origin = `http://localhost:${port}`;
  const pod = await podCommand('console/Dockerfile', 'console');
  const child = spawn(process.execPath, [...pod.flags, `${ROOT}/dist/console/main.mjs`], {
    env: {
      ...variables,
      ORIGINS: origin,
      LISTEN_PORT: String(port),
      LOG_LEVEL: 'error',
      ...pod.environment,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await eventually(async () => (await request(`${origin}/healthz`)).statusCode === 200, {
    what: 'a console',
  });
  return {
    origin,
    /** The peak memory until now. */
    memoryMiB(): number {
      const [, kib = ''] =
        /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
      return Math.round(Number(kib) / 102.4) / 10;
    },
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', resolve);
        child.kill();
      }),
  };
}
