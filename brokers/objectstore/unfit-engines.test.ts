import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Authority, makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { freePort } from '../../testing/ports.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../testing/postgres/server.ts';
import { startS3Server } from '../../testing/s3.ts';
import { type Mounts as DatabaseMounts, mountFiles as mountDatabaseFiles } from '../db/testing/broker.ts';
import { query } from '../db/testing/postgres.ts';
import { startBetween } from './testing/between.ts';
import { BUCKET, type Mounts, mountFiles } from './testing/broker.ts';
import { type Fixture, openFixtureOn } from './testing/fixture.ts';

/** Both brokers as their pods start them, with servers that they cannot use: none of them ever listens. */

let server: EmbeddedServer;
let fixture: Fixture;
let database: DatabaseMounts;
let directory: string;
let authority: Authority;
let foreign: Authority;
beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  fixture = await openFixtureOn(server);
  database = mountDatabaseFiles(server);
  directory = mkdtempSync(join(tmpdir(), 'space-unfit-'));
  authority = makeAuthority(directory, 'own');
  foreign = makeAuthority(directory, 'foreign');
});
afterAll(async () => {
  await fixture?.close();
  database?.remove();
  await server?.remove();
  rmSync(directory, { recursive: true, force: true });
});

const PROGRAMS = { db: '../db/main.ts', objectstore: './main.ts' };
type Program = keyof typeof PROGRAMS;

/** Starts the program, waits until it has said so in its log, and ends it where it has not ended itself. */
async function refusal(
  name: Program,
  environment: Record<string, string>,
  said: RegExp,
): Promise<number | null> {
  const [port, dataPort] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, [join(import.meta.dirname, PROGRAMS[name])], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      ...environment,
      LOG_LEVEL: 'info',
      LISTEN_PORT: String(port),
      ...(name === 'objectstore' ? { DATA_PORT: String(dataPort) } : {}),
    },
  });
  let log = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const gone = once(child, 'exit');
  // It may have ended before what it said has come.
  let isOver = false;
  child.once('close', () => {
    isOver = true;
  });
  const open: number[] = [];
  try {
    await eventually(
      async () => {
        for (const one of [port, dataPort]) if (await listens(one)) open.push(one);
        return said.test(log) || isOver;
      },
      { what: `the log to say ${said}` },
    );
    expect(log).toMatch(said);
    expect(open).toEqual([]);
    expect(log).not.toContain('"listening"');
    return child.exitCode;
  } finally {
    child.kill('SIGKILL');
    await gone;
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

const sql = (text: string) => query(server.superuserUrl, text);

describe('a PostgreSQL', () => {
  it('that accepts no writes is refused by both brokers, with the repair', async () => {
    for (const role of ['space_broker', 'space_objectstore'])
      await sql(`ALTER ROLE ${role} SET default_transaction_read_only = on`);
    try {
      for (const [name, environment, role] of [
        ['db', database.environment, '\\\\"space_broker\\\\"'],
        ['objectstore', fixture.mounts.environment, 'space_objectstore'],
      ] as const) {
        const said = new RegExp(`it accepts no writes: .*ALTER ROLE ${role} RESET .*cannot start`);
        await refusal(name, environment, said);
      }
    } finally {
      for (const role of ['space_broker', 'space_objectstore'])
        await sql(`ALTER ROLE ${role} RESET default_transaction_read_only`);
    }
  });

  it('with a certificate of another CA is refused by both, and the log says where to configure the CA', async () => {
    const pair = authority.sign('postgres', ['IP:127.0.0.1']);
    const { uid, gid } = statSync(join(server.directory, 'data'));
    for (const [file, from] of [
      ['cert', pair.cert],
      ['key', pair.key],
    ] as const) {
      const path = join(server.directory, file);
      copyFileSync(from, path);
      chownSync(path, uid, gid);
      await sql(`ALTER SYSTEM SET ssl_${file}_file = '${path}'`);
    }
    await sql('ALTER SYSTEM SET ssl = on');
    await sql('SELECT pg_reload_conf()');
    const through = (url: string) => `${url}?sslmode=verify-full&sslrootcert=${foreign.cert}`;
    database.write('url', through(server.brokerUrl));
    const said = /certificate is not from a trusted authority: put the one .* into postgres\.external\.ca/;
    await refusal('db', database.environment, said);
    const url = fixture.mounts.write('foreign', through(server.objectStoreUrl));
    await refusal('objectstore', { ...fixture.mounts.environment, REGISTRY_DATABASE_URL_FILE: url }, said);
  });
});

describe('an S3 server', () => {
  /** The fixture's files of another server. */
  const at = (s3: Awaited<ReturnType<typeof startS3Server>>, mounts: Mounts) => ({
    ...fixture.mounts.environment,
    ...{ S3_ENDPOINT: s3.endpoint, S3_BUCKET: BUCKET },
    S3_ACCESS_KEY_FILE: mounts.write('other-id', s3.accessKeyId),
    S3_SECRET_KEY_FILE: mounts.write('other-secret', s3.secretAccessKey),
  });

  it('that accepts no writes is refused', async () => {
    const s3 = await startS3Server({ readOnly: true });
    onTestFinished(() => s3.remove());
    s3.makeBucket(BUCKET);
    const said = /the key may not list, read, write and delete all of it.*cannot start/;
    expect(await refusal('objectstore', at(s3, fixture.mounts), said)).not.toBe(0);
  });

  it('with a certificate of another CA is refused', async () => {
    const s3 = await startS3Server({ tls: authority.sign('s3', ['IP:127.0.0.1']) });
    onTestFinished(() => s3.remove());
    s3.makeBucket(BUCKET);
    const environment = { ...at(s3, fixture.mounts), S3_CA_FILE: foreign.cert };
    const said = /its certificate is not from an authority that S3_CA_FILE, or the system, has.*cannot start/;
    expect(await refusal('objectstore', environment, said)).not.toBe(0);
  });

  it('that checks the condition of a write before it has the body is refused', async () => {
    const s3 = await startS3Server();
    onTestFinished(() => s3.remove());
    s3.makeBucket(BUCKET);
    const between = await startBetween(s3);
    onTestFinished(() => between.close());
    // What begins before anything is there is answered as if it had been stored, and so two are that come at one time.
    const there = new Set<string | undefined>();
    const late = new WeakSet<object>();
    between.begun = (request) => {
      if (there.has(request.url)) late.add(request);
    };
    between.fate = (request, status) => {
      if (request.method === 'DELETE') there.delete(request.url);
      if (request.method !== 'PUT' || late.has(request)) return 'pass';
      there.add(request.url);
      return status === 412 ? { etag: '"another"' } : 'pass';
    };
    const environment = { ...at(s3, fixture.mounts), S3_ENDPOINT: between.endpoint };
    const said = /its server lets several writes with If-None-Match through.*cannot start/;
    expect(await refusal('objectstore', environment, said)).not.toBe(0);
  });

  it('whose bucket belongs to another Space is refused, with its name', async () => {
    const cabin = await startEmbeddedServer({ durable: false });
    const mounts = mountFiles(cabin.objectStoreUrl, fixture.s3, 'cabin');
    onTestFinished(async () => {
      mounts.remove();
      await cabin.remove();
    });
    const said = /belongs to the Space \\"test\\"; name a bucket of this Space's own.*cannot start/;
    expect(await refusal('objectstore', mounts.environment, said)).not.toBe(0);
  });
});
