import { chownSync, copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeAuthority } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { freePort } from '../../../testing/ports.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { createLogger } from '../log.ts';
import type { Watched } from '../watched.ts';
import { type ServerAddress, serverParser } from './address.ts';
import { openConnections } from './connections.ts';
import { StepError } from './errors.ts';
import { whyUnreachable } from './unreachable.ts';

const LIMITS = { application: 'test', work: 1, lookup: 1 };
const log = createLogger({ service: 'test', level: 'fatal' });

let server: EmbeddedServer;
let directory: string;
let authority: string;
let foreign: string;
let closedPort: number;

beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  directory = mkdtempSync(join(tmpdir(), 'space-unreachable-'));
  closedPort = await freePort();
  foreign = makeAuthority(directory, 'foreign').cert;
  const own = makeAuthority(directory, 'own');
  authority = own.cert;
  const pair = own.sign('postgres', ['IP:127.0.0.1']);
  const { uid, gid } = statSync(join(server.directory, 'data'));
  for (const [file, from] of [
    ['tls.crt', pair.cert],
    ['tls.key', pair.key],
  ] as const) {
    copyFileSync(from, join(server.directory, file));
    chownSync(join(server.directory, file), uid, gid);
  }
  await superuser(`ALTER SYSTEM SET ssl_cert_file = '${join(server.directory, 'tls.crt')}'`);
  await superuser(`ALTER SYSTEM SET ssl_key_file = '${join(server.directory, 'tls.key')}'`);
  await tls('on');
  await superuser("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0 PASSWORD 'crowded'");
});
afterAll(async () => {
  await server.remove();
  rmSync(directory, { recursive: true, force: true });
});

async function superuser(statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: server.superuserUrl });
  await client.connect();
  return client.query(statement).then(
    ({ rows }) => client.end().then(() => rows),
    (error: unknown) => client.end().then(() => Promise.reject(error)),
  );
}

async function tls(state: 'on' | 'off'): Promise<void> {
  await superuser(`ALTER SYSTEM SET ssl = ${state}`);
  await superuser('SELECT pg_reload_conf()');
  await eventually(async () => JSON.stringify(await superuser('SHOW ssl')).includes(`"${state}"`), {
    what: `TLS to be ${state}`,
  });
}

/** The broker's message about a server at a changed URL; empty if it is reached. */
async function why(change: (url: URL) => void = () => undefined): Promise<string> {
  const url = new URL(server.brokerUrl);
  url.search = `?sslmode=verify-full&sslrootcert=${authority}`;
  change(url);
  const parse = serverParser({ url: undefined, setting: 'ADMIN_DATABASE' }, (path) =>
    readFileSync(path, 'utf8'),
  );
  const value = parse(url.href);
  const address: Watched<ServerAddress> = {
    current: () => value,
    refresh: async () => undefined,
    close: () => undefined,
  };
  const connections = openConnections(address, log, LIMITS);
  try {
    await connections.session((session) => session.read('reach server', 'SELECT 1'));
    return '';
  } catch (error) {
    if (!(error instanceof StepError)) throw error;
    return whyUnreachable(error);
  } finally {
    await connections.close();
  }
}

it('is empty if everything works', async () => {
  expect(await why()).toBe('');
});

it.each<[string, (url: URL) => void, RegExp]>([
  [
    'a port at which nobody listens',
    (url) => {
      url.port = String(closedPort);
    },
    /ECONNREFUSED\): nothing listens there/,
  ],
  [
    'a name that there is not',
    (url) => {
      url.hostname = 'postgres.invalid';
    },
    /DNS does not know its name: correct postgres\.external\.host/,
  ],
  [
    'another authority',
    (url) => {
      url.search = `?sslmode=verify-full&sslrootcert=${foreign}`;
    },
    /not from a trusted authority: .*postgres\.external\.ca/,
  ],
  [
    'a certificate for another name',
    (url) => {
      url.hostname = 'localhost';
    },
    /for another name: correct postgres\.external\.host/,
  ],
  [
    'another password',
    (url) => {
      url.password = 'canary';
    },
    /28P01\): it refuses role or password/,
  ],
  [
    'a role that there is not',
    (url) => {
      url.username = 'nobody';
    },
    /28P01\): it refuses role or password/,
  ],
  [
    'no registry',
    (url) => {
      url.pathname = '/nothing';
    },
    /3D000\): the registry database does not exist: CREATE DATABASE/,
  ],
  [
    'a registry of somebody else',
    (url) => {
      url.pathname = '/postgres';
    },
    /42501\): this role may not connect to its registry: ALTER DATABASE/,
  ],
  [
    'a role that may have no connection',
    (url) => {
      url.username = 'crowded';
      url.password = 'crowded';
      url.pathname = '/template1';
    },
    /53300\): it has no connection left/,
  ],
])('reports %s, what to do, and nothing secret', async (_, change, sentence) => {
  const said = await why(change);
  expect(said).toMatch(sentence);
  expect(said).not.toContain('canary');
});

it('reports a server without TLS', async () => {
  await tls('off');
  expect(await why()).toBe(
    'the database server cannot be reached: it does not support TLS: turn ssl on there',
  );
});
