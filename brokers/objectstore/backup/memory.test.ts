import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Servers, startServers } from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

test('a backup of many objects with long keys and headers holds only a few of them in memory', () => {
  const { s3, identity } = servers;
  const objects = 12_000;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      // Their keys and headers have 50 MB.
      '--max-old-space-size=40',
      fileURLToPath(new URL('./testing/many.ts', import.meta.url)),
      ...[
        s3.endpoint,
        s3.accessKeyId,
        s3.secretAccessKey,
        servers.bucket().name,
        identity,
        String(objects),
        '4000',
      ],
    ],
    { encoding: 'utf8' },
  );
  expect(stderr).toBe('');
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    copied: { objects, copied: 0, left_out: 0, unreadable: 0 },
    checked: { objects, bytes: objects },
    expired: { points: 0, contents: 0 },
  });
});
