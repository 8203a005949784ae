import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { newToken } from '@space/broker-kit';
import { expect, it } from 'vitest';
import { credentialsOf } from './byok/credentials/testing/byok.ts';
import { client } from './testing/broker.ts';

it('the development broker prints one line with its address, its fields pass a verification, and it leaves nothing', async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'dev.ts')], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [line] = await once(createInterface({ input: child.stdout }), 'line');
    const ready = JSON.parse(String(line));
    expect(Object.keys(ready).sort()).toEqual(
      ['admin_database_url', 'byok_fields', 'data_url', 'provisioner_token', 's3', 'service', 'url'].sort(),
    );
    const principal = newToken('osp').reveal();
    expect((await client(ready.url, ready.provisioner_token).provision('home', principal)).status).toBe(200);
    const own = credentialsOf(client(ready.url, principal), 'home');
    expect((await own.create('one', ready.byok_fields, 0)).text).toContain('"generation":1');
    expect((await fetch(`${ready.data_url}/v1/objects/data`)).status).toBe(403);
  } finally {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  expect(child.exitCode).toBe(0);
});
