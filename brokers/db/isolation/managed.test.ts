import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer, connect as dial } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { type Mounts, mountFiles, startTestBroker } from '../testing/broker.ts';
import { connect, intoDatabase, query, sqlstate } from '../testing/postgres.ts';
import { databasesOf, rolesOf } from '../testing/powers.ts';

const MAJORS: readonly PostgresMajor[] = ['15', '16', '17', '18'];
const MANAGED = readFileSync(new URL('../postgres/managed.sql', import.meta.url), 'utf8');
const PASSWORD = randomBytes(24).toString('base64url');

/** A URL of the same server for another role and database. */
function as(url: string, role: string, database: string): string {
  const other = new URL(intoDatabase(url, database));
  other.username = role;
  other.password = PASSWORD;
  return other.href;
}

/** Makes of the server what a provider hands out: its administrator has a role that is granted much, and is no superuser. */
async function becomeManaged({ superuserUrl }: EmbeddedServer, major: PostgresMajor): Promise<void> {
  const sql = (text: string) => query(superuserUrl, text);
  for (const name of ['space_registry', 'space_objectstore']) await sql(`DROP DATABASE ${name}`);
  for (const name of ['space_broker', 'space_objectstore']) await sql(`DROP ROLE ${name}`);
  await sql('ALTER ROLE ALL RESET log_min_messages');
  await sql('CREATE ROLE provider_superuser');
  await sql('CREATE ROLE provider_standby LOGIN REPLICATION');
  const groups = ['pg_signal_backend', 'pg_monitor', 'pg_read_all_stats'];
  if (Number(major) >= 16) groups.push('pg_use_reserved_connections');
  await sql(`GRANT ${groups.join(', ')} TO provider_superuser WITH ADMIN OPTION`);
  await sql(`CREATE ROLE master LOGIN CREATEROLE CREATEDB PASSWORD '${PASSWORD}'`);
  await sql('GRANT provider_superuser TO master');
  await sql('ALTER DATABASE postgres OWNER TO master');
  await sql('GRANT CONNECT, TEMPORARY ON DATABASE postgres TO PUBLIC');
  await sql('GRANT CONNECT ON DATABASE template1 TO PUBLIC');
  const master = as(superuserUrl, 'master', 'postgres');
  for (const statement of MANAGED.split(/\n\s*\n/)) await query(master, statement);
  for (const name of ['space_broker', 'space_objectstore'])
    await query(master, `ALTER ROLE ${name} PASSWORD '${PASSWORD}'`);
}

describe.each(MAJORS)('on a provider’s PostgreSQL %s, without any superuser', (major) => {
  let server: EmbeddedServer;
  let mounts: Mounts;
  const start = (environment: Record<string, string> = {}) =>
    startTestBroker(mounts, { environment: { ACCEPT_OPEN_DATABASES: 'template1', ...environment } });

  beforeAll(async () => {
    server = await startEmbeddedServer({ major, durable: false });
    await becomeManaged(server, major);
    mounts = mountFiles({ ...server, brokerUrl: as(server.brokerUrl, 'space_broker', 'space_registry') });
  });
  afterAll(async () => {
    await server.remove();
    mounts.remove();
  });

  it('grants its two roles what they need, and nothing to others', async () => {
    const reserved = Number(major) >= 16 ? ['pg_use_reserved_connections'] : [];
    const { space_broker, space_objectstore, master } = await rolesOf(server.superuserUrl);
    expect(space_broker).toBe(
      `LOGIN CREATEROLE CREATEDB INHERIT in ${['pg_read_all_stats', 'pg_signal_backend', ...reserved].join(', ')}`,
    );
    expect(space_objectstore).toBe(['LOGIN INHERIT', ...reserved].join(' in '));
    expect(master).toBe('LOGIN CREATEROLE CREATEDB INHERIT');
    const databases = await databasesOf(server.superuserUrl);
    expect(databases).toMatchObject({
      postgres: 'of master: provider_standby CONNECT',
      space_objectstore: 'of space_objectstore:',
      space_registry: 'of space_broker:',
    });
    // A creator of a role is a member of it, and revokes that again.
    const taken = `SELECT pg_get_userbyid(roleid) AS role FROM pg_auth_members
                   WHERE pg_get_userbyid(member) = 'master' AND pg_get_userbyid(grantor) = 'master'
                   AND pg_get_userbyid(roleid) LIKE 'space%'`;
    expect(await query(server.superuserUrl, taken)).toEqual([]);
  });

  it('creates, isolates, measures and drops a database, and lets nobody else in', async () => {
    const broker = await start();
    try {
      const one = await broker.capsule('one');
      const url: string = (await one.create('one', 'ledger')).json.database_url;
      const other: string = (await (await broker.capsule('two')).create('two', 'ledger')).json.database_url;
      await query(url, 'CREATE TABLE kept (row int)');
      expect(await sqlstate(intoDatabase(other, new URL(url).username))).toBe('42501');
      expect(await sqlstate(intoDatabase(other, 'space_registry'))).toBe('42501');
      await broker.round('drift');
      await broker.round('sizes');
      expect(broker.log.filter((line) => line.includes('cannot be mended'))).toEqual([]);
      const session = await connect(url);
      const ended = new Promise((resolve) => session.once('end', resolve));
      expect((await one.drop('one', 'ledger')).status).toBe(200);
      await ended;
      const left = await query(
        server.superuserUrl,
        `SELECT datname FROM pg_database WHERE datname = '${new URL(url).username}'
         UNION ALL SELECT rolname FROM pg_roles WHERE rolname = '${new URL(url).username}'`,
      );
      expect(left).toEqual([]);
    } finally {
      await broker.stop();
    }
  });

  it('reports what the provider left open and the settings do not accept', async () => {
    const refused = start({ ACCEPT_OPEN_DATABASES: '' });
    await expect(refused).rejects.toThrow(
      /PUBLIC may connect to template1: REVOKE CONNECT ON DATABASE "template1" FROM PUBLIC; .*acceptOpenDatabases/,
    );
  });

  it('has a registry for the object store, whose role can connect to nothing else', async () => {
    expect(await sqlstate(as(server.superuserUrl, 'space_objectstore', 'space_objectstore'))).toBe('ok');
    expect(await sqlstate(as(server.superuserUrl, 'space_objectstore', 'space_registry'))).toBe('42501');
  });
});

describe('start-up refuses to listen', () => {
  let server: EmbeddedServer;
  let mounts: Mounts;
  beforeAll(async () => {
    server = await startEmbeddedServer({ durable: false });
    mounts = mountFiles(server);
  });
  afterAll(async () => {
    await server.remove();
    mounts.remove();
  });

  it.each([
    [
      'on a server that takes no writes',
      'ALTER ROLE space_broker SET default_transaction_read_only = on',
      'ALTER ROLE space_broker RESET default_transaction_read_only',
      /it accepts no writes/,
    ],
    [
      'with too few connections of its own',
      'ALTER ROLE space_broker CONNECTION LIMIT 11',
      'ALTER ROLE space_broker CONNECTION LIMIT -1',
      /CONNECTION LIMIT -1/,
    ],
    [
      'with a registry of somebody else',
      'ALTER DATABASE space_registry OWNER TO postgres; GRANT ALL ON DATABASE space_registry TO space_broker',
      'ALTER DATABASE space_registry OWNER TO space_broker',
      /ALTER DATABASE "space_registry" OWNER TO "space_broker"/,
    ],
  ])('%s', async (_, spoil, mend, sentence) => {
    await query(server.superuserUrl, spoil);
    await expect(startTestBroker(mounts)).rejects.toThrow(sentence);
    await query(server.superuserUrl, mend);
  });

  it('if no Assistant could have a connection', async () => {
    const environment = { ROLE_CONNECTION_LIMIT: '166' };
    await expect(startTestBroker(mounts, { environment })).rejects.toThrow(
      /max_connections is 230, of which 65 .* may have 166: ALTER SYSTEM/,
    );
  });

  it('behind a connection pooler', async () => {
    const pool = await poolBefore(server.port);
    const url = new URL(server.brokerUrl);
    url.port = String(pool.port);
    mounts.write('url', url.href);
    await expect(startTestBroker(mounts)).rejects.toThrow(/connection pooler .* name the server itself/);
    mounts.write('url', server.brokerUrl);
    pool.close();
  });
});

/** Answers like a pooler, which gives clients a process id of its own for cancelling statements. */
async function poolBefore(port: number) {
  const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);
  const relay = createServer((client) => {
    const upstream = dial(port, '127.0.0.1');
    client.pipe(upstream);
    upstream.on('data', (chunk: Buffer) => {
      const at = chunk.indexOf(keyData);
      if (at >= 0) chunk.writeInt32BE(1 + chunk.readInt32BE(at + 5), at + 5);
      client.write(chunk);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  return { port: (relay.address() as AddressInfo).port, close: () => relay.close() };
}
