import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Secret } from '@space/broker-kit';
import { expect, test } from 'vitest';
import { createS3Client } from './client.ts';
import { createPool } from './managed.ts';
import { routeOf, type Target } from './target.ts';

const bucket = 'space';

test.each([
  ['https://s3.example.org', 'path', 'https://s3.example.org', 's3.example.org', '/space'],
  ['https://s3.example.org', 'virtual-host', 'https://space.s3.example.org', 'space.s3.example.org', ''],
  ['https://[fd00::9]', 'path', 'https://[fd00::9]', '[fd00::9]', '/space'],
  ['https://[fd00::9]:443', 'path', 'https://[fd00::9]:443', '[fd00::9]', '/space'],
  ['http://[fd00::9]:9000', 'path', 'http://[fd00::9]:9000', '[fd00::9]:9000', '/space'],
] as const)(
  'requests for a bucket at %s, named in the %s, go to %s',
  (origin, addressing, to, host, path) => {
    expect(routeOf({ origin, bucket, addressing })).toEqual({ origin: to, host, path });
  },
);

test.each(['https://fd00::9', 'https://[fd00::9', 'https://[fd00::9]/files'])(
  '%s is refused as the address of a server',
  (origin) => {
    expect(() => routeOf({ origin, bucket, addressing: 'path' })).toThrow(/origin/);
  },
);

test.each(['http://[fd00::9]:9000', 'http://203.0.113.9'])(
  'a bucket cannot be named in a host that is an address, such as %s',
  (origin) => {
    expect(() => routeOf({ origin, bucket, addressing: 'virtual-host' })).toThrow(/address/);
  },
);

test('a server with an IPv6 address is called there, with the host that was signed', async () => {
  let asked: unknown;
  const server = createServer(({ url, headers }, response) => {
    asked = { url, host: headers.host, signed: /SignedHeaders=[^,]*host/.test(headers.authorization ?? '') };
    response.writeHead(200, { 'content-length': 0, etag: '"e"' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '::1', resolve));
  const { port } = server.address() as AddressInfo;
  const target: Target = {
    origin: `http://[::1]:${port}`,
    region: 'us-east-1',
    bucket,
    addressing: 'path',
    accessKeyId: new Secret('id'),
    secretAccessKey: new Secret('key'),
  };
  const pool = createPool(target, { connections: 1 });
  try {
    await createS3Client(target, pool).head('a');
    expect(asked).toEqual({ url: '/space/a', host: `[::1]:${port}`, signed: true });
  } finally {
    await pool.destroy();
    server.close();
  }
});
