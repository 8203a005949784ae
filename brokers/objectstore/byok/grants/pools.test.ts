import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttps } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addressGuard, dialler, portOf, Secret } from '@space/broker-kit';
import { expect, test } from 'vitest';
import { makeAuthority } from '../../../../testing/certificates.ts';
import { createS3Client } from '../../upstream/client.ts';
import { createPools } from './pools.ts';

const target = {
  region: 'us-east-1',
  bucket: 'tenant',
  addressing: 'path' as const,
  accessKeyId: new Secret('canary-id'),
  secretAccessKey: new Secret('canary-secret'),
};

test('an endpoint whose name resolves to an internal address gets no connection', async () => {
  let connections = 0;
  const inside = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
  const addresses = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::ffff:7f00:1', '64:ff9b::7f00:1'];
  for (const address of addresses) {
    const guarded = dialler({ resolve: async () => [{ address, ttl: 60 }], guard: addressGuard({}) });
    const pools = createPools({ dialler: guarded, ca: undefined });
    const origin = `https://s3.tenant.example:${portOf(inside)}`;
    const s3 = createS3Client({ ...target, origin }, pools.of('set', origin));
    await expect(s3.put('key', Buffer.from('body'))).rejects.toMatchObject({
      name: 'S3Error',
      kind: 'unreachable',
      cause: { name: 'DialError', failure: 'denied' },
    });
    await pools.close();
  }
  expect(connections).toBe(0);
  inside.close();
});

test('a connection stays open after the time limit for opening it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'space-pools-'));
  const authority = makeAuthority(directory, 'ca');
  const { cert, key } = authority.sign('s3', ['DNS:s3.tenant.example']);
  const server = createHttps({ cert: readFileSync(cert), key: readFileSync(key) }, (_request, response) => {
    response.write('first ');
    setTimeout(() => response.end('last'), 6_000);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const answer = [{ address: '127.0.0.1', ttl: 60, trusted: true as const }];
  const guarded = dialler({ resolve: async () => answer, guard: addressGuard({}) });
  const pools = createPools({ dialler: guarded, ca: readFileSync(authority.cert, 'utf8') });
  const origin = `https://s3.tenant.example:${portOf(server)}`;
  const s3 = createS3Client({ ...target, origin }, pools.of('set', origin));
  expect((await s3.read('key', 100)).body.toString()).toBe('first last');
  await pools.close();
  server.close();
  rmSync(directory, { recursive: true });
});

test('connections are shared only by requests of one set', async () => {
  const guarded = dialler({ resolve: async () => [], guard: addressGuard({}) });
  const pools = createPools({ dialler: guarded, ca: undefined });
  const origin = 'https://s3.tenant.example';
  const first = pools.of('a', origin);
  expect(pools.of('a', origin)).toBe(first);
  expect(pools.of('b', origin)).not.toBe(first);
  // The least recently used pool is removed.
  for (let i = 0; i < 300; i += 1) pools.of(`set-${i}`, origin);
  expect(pools.of('a', origin)).not.toBe(first);
  await pools.close();
});
