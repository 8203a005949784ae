/**
 * Who may do what on a server with a Space on it, as its own catalogues have it: each role, database and setting, held
 * against what is drawn here. `npm run soak -- walls --only grants` leaves out and widens each statement that makes it so.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { COMMANDS } from '../commands.ts';
import { type Client, type Mounts, mountFiles, startTestBroker, type TestBroker } from '../testing/broker.ts';
import { query, sqlstate } from '../testing/postgres.ts';
import { databasesOf, publicSchemaOf, rolesOf, settingsOf } from '../testing/powers.ts';

const BROKER =
  'LOGIN CREATEROLE CREATEDB INHERIT in pg_read_all_stats, pg_signal_backend, pg_use_reserved_connections';
const OBJECT_STORE = 'LOGIN INHERIT in pg_use_reserved_connections';
const CLOSED = {
  postgres: 'of postgres:',
  space_objectstore: 'of space_objectstore:',
  space_registry: 'of space_broker:',
  template0: 'shut of postgres: - CONNECT',
  template1: 'of postgres:',
};
const LOGS_NOTHING = 'log_min_messages=fatal of everybody';

let server: EmbeddedServer;
let mounts: Mounts;
let broker: TestBroker;
/** Before a broker has come. */
let fresh: readonly [roles: object, databases: object, settings: readonly string[]];
let capsule: Client;
let name: string;

const picture = async () =>
  [
    await rolesOf(server.superuserUrl),
    await databasesOf(server.superuserUrl),
    await settingsOf(server.superuserUrl),
  ] as const;
const tenant = async () => {
  const [roles, databases] = await picture();
  return [roles[name], databases[name]];
};
const command = (word: string) =>
  COMMANDS[word]!.run(broker.servers, 'a'.repeat(32), ['walls'], async () => '');
const limits = (more: object) =>
  broker.provisioner.post('/v1/capsules/limits', { capsule_id: 'walls', ...more });

const ROLE = 'LOGIN 5 connections';
const own = (what = '5 connections') => `${what} of space_broker: ${name} CONNECT, CREATE, TEMPORARY`;

beforeAll(async () => {
  server = await startEmbeddedServer({ major: '18', durable: false });
  fresh = await picture();
  mounts = mountFiles(server);
  broker = await startTestBroker(mounts, { environment: { SIZE_INTERVAL_MS: '1000000' } });
  capsule = await broker.capsule('walls');
  name = new URL((await capsule.create('walls', 'ledger')).json.database_url).username;
});

afterAll(async () => {
  await broker?.stop();
  await server?.remove();
  mounts?.remove();
});

it('a server after the setup has the two roles of the Space, and lets nobody into databases of others', () => {
  const roles = { space_broker: BROKER, space_objectstore: OBJECT_STORE };
  expect(fresh).toEqual([roles, CLOSED, [LOGS_NOTHING]]);
});

it('standbys may connect to the database from which pg_rewind reads, and no other role', async () => {
  const sql = (text: string) => query(server.superuserUrl, text);
  await sql(
    'CREATE ROLE standby LOGIN REPLICATION; CREATE ROLE "re-winder" LOGIN; CREATE ROLE stranger LOGIN',
  );
  await sql('GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO "re-winder"');
  try {
    await sql(readFileSync(new URL('../postgres/bootstrap.sql', import.meta.url), 'utf8'));
    expect(await databasesOf(server.superuserUrl)).toMatchObject({
      ...CLOSED,
      postgres: 'of postgres: re-winder CONNECT; standby CONNECT',
    });
  } finally {
    const roles = 'standby, "re-winder", stranger';
    await sql(`DROP OWNED BY ${roles}; DROP ROLE ${roles}`);
  }
});

describe('with a database', () => {
  it('a tenant has a role without rights on the server, and is alone in its database', async () => {
    expect(await tenant()).toEqual([ROLE, own()]);
    const [roles, databases, settings] = await picture();
    expect(Object.keys(roles)).toHaveLength(4);
    const opened = Object.entries(databases).filter(([one]) => !(one in CLOSED) && !one.includes(name));
    // Spares and their template. The Capsule has a database of its own.
    const [other = ''] = Object.keys(roles).filter((one) => one.startsWith('spc_') && one !== name);
    for (const [one, says] of opened)
      expect([one, says]).toEqual([
        one,
        one === other
          ? `5 connections of space_broker: ${other} CONNECT, CREATE, TEMPORARY`
          : expect.stringMatching(/^shut of space_broker:( - CONNECT, TEMPORARY)?$/),
      ]);
    expect(settings.filter((says) => says.includes(name))).toEqual([
      `idle_in_transaction_session_timeout=60s of ${name} in ${name}`,
    ]);
  });

  it('the template of spares is closed to everybody, and lets tenants use the public schema of their clones', async () => {
    const databases = await databasesOf(server.superuserUrl);
    const [template = ''] = await query<{ name: string }>(
      server.superuserUrl,
      `SELECT datname::text AS name FROM pg_database WHERE shobj_description(oid, 'pg_database') = 'sealed'`,
    ).then((rows) => rows.map((row) => row.name));
    expect(databases[template]).toBe('shut of space_broker:');
    expect(await publicSchemaOf(server.superuserUrl, name)).toBe(
      '{pg_database_owner=UC/pg_database_owner,=UC/pg_database_owner}',
    );
  });

  it('a closed database is closed in two ways, and opened again as it was', async () => {
    await command('close');
    expect(await tenant()).toEqual(['5 connections', own('shut 5 connections')]);
    await command('open');
    expect(await tenant()).toEqual([ROLE, own()]);
  });

  it('a changed connection limit applies to role and database', async () => {
    expect((await limits({ connections: 3 })).status).toBe(200);
    expect(await tenant()).toEqual(['LOGIN 3 connections', own('3 connections')]);
    expect((await limits({})).status).toBe(200);
    expect(await tenant()).toEqual([ROLE, own()]);
  });

  it('everything that somebody changed by hand is restored', async () => {
    const sql = (text: string) => query(server.superuserUrl, text);
    await sql('CREATE ROLE friend; CREATE ROLE guest');
    await sql(`GRANT friend TO space_broker WITH ADMIN OPTION`);
    await sql(
      `ALTER ROLE ${name} NOLOGIN CREATEDB CREATEROLE INHERIT CONNECTION LIMIT 50 VALID UNTIL '2020-01-01'`,
    );
    // As the broker: on PostgreSQL 16 and later nobody takes back what a superuser gave.
    await query(server.brokerUrl, `GRANT friend TO ${name}; GRANT ${name} TO guest`);
    await sql(`REVOKE ALL ON DATABASE ${name} FROM ${name}`);
    await sql(`GRANT ALL ON DATABASE ${name} TO guest, PUBLIC`);
    await sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false CONNECTION LIMIT 50`);
    await broker.round('drift');
    expect(await tenant()).toEqual([ROLE, own()]);
    const members = await query(
      server.superuserUrl,
      `SELECT pg_get_userbyid(member) AS member, pg_get_userbyid(roleid) AS of FROM pg_auth_members
       WHERE 'guest'::regrole IN (member, roleid) OR 'friend'::regrole IN (member, roleid) AND member <> 'space_broker'::regrole`,
    );
    expect(members).toEqual([]);
  });

  it('a disabled role with another password can log in again after the next create', async () => {
    await query(server.superuserUrl, `ALTER ROLE ${name} NOLOGIN PASSWORD 'another'`);
    const again = await capsule.create('walls', 'ledger');
    expect(again).toMatchObject({ status: 200, json: { created: false } });
    expect(await sqlstate(again.json.database_url)).toBe('ok');
  });

  it('a registry that was opened to everybody is closed again', async () => {
    const registry = async () => (await databasesOf(server.superuserUrl))['space_registry'];
    await query(server.superuserUrl, 'GRANT CONNECT ON DATABASE space_registry TO PUBLIC');
    expect(await registry()).toBe('of space_broker: - CONNECT');
    await broker.round('drift');
    expect(await registry()).toBe('of space_broker:');
  });

  it('a membership that a superuser granted is reported as one that cannot be repaired', async () => {
    await query(server.superuserUrl, `GRANT ${name} TO guest`);
    const unrepaired = async () => [...(await broker.metric('space_db_drift_unrepaired')).keys()];
    const before = broker.log.length;
    await broker.round('drift');
    const said = broker.log.slice(before).filter((line) => line.includes('"kind":"membership"'));
    expect(said).toEqual([expect.stringContaining('drift cannot be mended')]);
    expect(await unrepaired()).toEqual(['kind="membership"']);
    await query(server.superuserUrl, `REVOKE ${name} FROM guest`);
    await broker.round('drift');
    expect(await unrepaired()).toEqual([]);
  });
});
