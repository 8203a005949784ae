import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeAuthority } from '../../../testing/certificates.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { query } from '../../db/testing/postgres.ts';
import { createLogger } from '../log.ts';
import { serverParser } from './address.ts';
import { type Connections, openConnections } from './connections.ts';

let server: EmbeddedServer;
let directory: string;
let ca: string;
let connections: Connections;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-authority-'));
  ca = join(directory, 'named.crt');
  const authority = makeAuthority(directory, 'authority');
  const { cert, key } = authority.sign('server', ['IP:127.0.0.1']);
  copyFileSync(authority.cert, ca);
  server = await startEmbeddedServer({ durable: false });
  const { uid, gid } = statSync(server.directory);
  for (const [from, name] of [[cert, 'tls.crt'] as const, [key, 'tls.key'] as const]) {
    const path = join(server.directory, name);
    copyFileSync(from, path);
    chownSync(path, uid, gid);
    chmodSync(path, 0o600);
  }
  for (const setting of [
    `ssl_cert_file = '${join(server.directory, 'tls.crt')}'`,
    `ssl_key_file = '${join(server.directory, 'tls.key')}'`,
    'ssl = on',
  ])
    await query(server.superuserUrl, `ALTER SYSTEM SET ${setting}`);
  await server.stop();
  await server.start();
  const url = `${server.brokerUrl}?sslmode=verify-full&sslrootcert=${ca}`;
  const parse = serverParser({ url: undefined, setting: 'ADMIN_DATABASE' }, (path) =>
    readFileSync(path, 'utf8'),
  );
  const value = parse(url);
  const address = { current: () => value, refresh: async () => undefined, close: () => undefined };
  const log = createLogger({ service: 'test', level: 'fatal' });
  connections = openConnections(address, log, { application: 'test', work: 5, lookup: 1 });
});
afterAll(async () => {
  await connections?.close();
  await server?.remove();
  rmSync(directory, { recursive: true, force: true });
});

/** Ends all connections to the server, so that a client has to open another one with the present CA file. */
async function newSession(): Promise<number> {
  await query(
    server.superuserUrl,
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'test'",
  );
  for (let lost = 0; ; lost += 1) {
    try {
      const [row] = await connections.session((session) =>
        session.read<{ one: number }>('ask', 'SELECT 1 AS one'),
      );
      return row?.one ?? 0;
    } catch (error) {
      // One that was idle is found to have ended only when it is used.
      if (lost >= 5) throw error;
    }
  }
}

it.each([
  ['deleted', () => rmSync(ca)],
  ['emptied', () => truncateSync(ca)],
  ['half written', () => writeFileSync(ca, readFileSync(join(directory, 'authority.crt')).subarray(0, 200))],
])('a CA file that is %s ends no process, and the trusted CAs stay trusted', async (_, harm) => {
  copyFileSync(join(directory, 'authority.crt'), ca);
  expect(await newSession()).toBe(1);
  harm();
  expect(await newSession()).toBe(1);
});

it('other CAs are used once they are complete, and the former ones are no longer trusted', async () => {
  writeFileSync(ca, readFileSync(makeAuthority(directory, 'another').cert));
  await expect(newSession()).rejects.toMatchObject({ code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' });
  copyFileSync(join(directory, 'authority.crt'), ca);
  expect(await newSession()).toBe(1);
});
