import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, findClients } from '../../../testing/postgres/clients.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { copyAll, move, moveWhole } from '../testing/moves.ts';
import { intoDatabase, query, sqlstate } from '../testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** Who may do what in a database, before and after its Capsule is moved. */

let two: TwoServers;
let clients: Clients;
let broker: TestBroker;
beforeAll(async () => {
  clients = await findClients();
  two = await openTwoServers({ major: clients.major });
  broker = await two.start({ shares: { main: { weight: 1_000 } } });
});
afterEach(async () => {
  for (const server of [two.main, two.b]) expect(await census(server.superuserUrl)).toEqual([]);
});
afterAll(async () => {
  await broker?.stop();
  await two?.close();
});

let names = 0;
/** A Capsule with two Assistants, and the role of another Capsule, all on main. */
async function capsule() {
  names += 1;
  const id = `granting-${names}`;
  const principal = newToken('dbp').reveal();
  await broker.provisioner.provision(id, principal);
  const url: string = (await broker.as(principal).create(id, 'app')).json.database_url;
  const sibling: string = (await broker.as(principal).create(id, 'sibling')).json.database_url;
  const stranger = await (await broker.capsule(`stranger-${names}`)).create(`stranger-${names}`, 'app');
  expect(two.serverOf(url)).toBe('main');
  return {
    id,
    principal,
    url,
    name: new URL(url).username,
    sibling: new URL(sibling).username,
    stranger: new URL(stranger.json.database_url).username,
  };
}

/** All grants in a database, and owners, as the catalogues have them, without those to one role. */
async function grantsIn(superuserUrl: string, name: string, without: string): Promise<string[]> {
  const rows = await query<{ what: string; acl: string[] }>(
    intoDatabase(superuserUrl, name),
    `SELECT format('%s of %s', relname, relowner::regrole) AS what, relacl::text[] AS acl FROM pg_class WHERE oid >= 16384
     UNION ALL SELECT format('%s.%s', attrelid::regclass, attname), attacl::text[] FROM pg_attribute WHERE attrelid >= 16384
     UNION ALL SELECT format('%s of %s', nspname, nspowner::regrole), nspacl::text[] FROM pg_namespace
     UNION ALL SELECT format('%s of %s', oid::regprocedure, proowner::regrole), proacl::text[] FROM pg_proc WHERE oid >= 16384
     UNION ALL SELECT format('%s of %s', oid::regtype, typowner::regrole), typacl::text[] FROM pg_type WHERE oid >= 16384
     UNION ALL SELECT format('%s of %s', oid, lomowner::regrole), lomacl::text[] FROM pg_largeobject_metadata
     UNION ALL SELECT format('new %s of %s in %s', defaclobjtype, defaclrole::regrole, defaclnamespace::regnamespace), defaclacl::text[]
       FROM pg_default_acl`,
  );
  return rows
    .filter(({ acl }) => acl !== null)
    .map(({ what, acl }) => `${what}: ${acl.filter((one) => !one.startsWith(`${without}=`)).sort()}`)
    .sort();
}

/** All kinds of grants, each beside one to a role that the target does not have. */
const grants = (sibling: string, stranger: string) => `
  CREATE SCHEMA "it's ""odd"";\nschema";
  SET search_path = "it's ""odd"";\nschema", public;
  CREATE TABLE ledger (id int GENERATED ALWAYS AS IDENTITY, amount int, note text);
  CREATE VIEW seen AS SELECT amount FROM ledger;
  CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM ledger;
  CREATE SEQUENCE counter;
  CREATE FUNCTION double(i int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT i * 2';
  CREATE PROCEDURE nothing() LANGUAGE plpgsql AS 'BEGIN END';
  CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int);
  CREATE TYPE kind AS ENUM ('low', 'high');
  CREATE DOMAIN positive AS int CHECK (VALUE > 0);
  CREATE TABLE untouched (i int);
  SELECT lo_from_bytea(4711, 'large');
  REVOKE UPDATE, DELETE, TRUNCATE ON ledger FROM CURRENT_USER;
  GRANT SELECT, INSERT ON ledger TO ${sibling} WITH GRANT OPTION;
  GRANT UPDATE (note) ON ledger TO CURRENT_USER, ${sibling}, ${stranger};
  GRANT SELECT ON ledger, seen, counted TO PUBLIC, ${sibling}, ${stranger}, pg_monitor;
  GRANT USAGE ON SEQUENCE counter TO ${sibling}, ${stranger};
  GRANT USAGE ON SCHEMA "it's ""odd"";\nschema" TO ${sibling}, ${stranger};
  REVOKE CREATE ON SCHEMA "it's ""odd"";\nschema" FROM CURRENT_USER;
  REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA "it's ""odd"";\nschema" FROM PUBLIC;
  GRANT EXECUTE ON ALL ROUTINES IN SCHEMA "it's ""odd"";\nschema" TO ${sibling}, ${stranger};
  REVOKE USAGE ON TYPE kind FROM PUBLIC;
  GRANT USAGE ON TYPE kind TO ${sibling}, ${stranger};
  GRANT USAGE ON TYPE positive TO ${sibling}, ${stranger};
  GRANT SELECT, UPDATE ON LARGE OBJECT 4711 TO ${sibling}, ${stranger};
  ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
  ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO ${sibling}, ${stranger};
  ALTER DEFAULT PRIVILEGES REVOKE DELETE ON TABLES FROM CURRENT_USER;
  ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO ${sibling}, ${stranger};
  ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO ${sibling}, ${stranger};
  ALTER DEFAULT PRIVILEGES GRANT USAGE ON TYPES TO ${sibling}, ${stranger};
  ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO ${sibling}, ${stranger};
`;

describe('a Capsule that is moved', () => {
  it('keeps all grants between its roles, also beside grants to roles of others', async () => {
    const { id, principal, url, name, sibling, stranger } = await capsule();
    await query(url, grants(sibling, stranger));
    const before = await grantsIn(two.main.superuserUrl, name, stranger);
    expect(before.join()).not.toContain(stranger);
    expect(await moveWhole(broker, clients, id, 'b')).toEqual({ moved: id, to: 'b' });
    expect(await grantsIn(two.b.superuserUrl, name, stranger)).toEqual(before);
    const there: string = (await broker.as(principal).create(id, 'app')).json.database_url;
    expect(await sqlstate(there, `DELETE FROM "it's ""odd"";\nschema".ledger`)).toBe('42501');
    // What one server has, the next move takes along.
    expect(await moveWhole(broker, clients, id, 'main')).toEqual({ moved: id, to: 'main' });
    expect(await grantsIn(two.main.superuserUrl, name, stranger)).toEqual(before);
  });
});

describe('a Capsule stays where it is, and is told why, if its copy', () => {
  const told = async (id: string, sibling: string) => {
    const begun = await move(broker, id, 'b');
    const said = await copyAll(clients, begun.copies).then(
      () => 'copied',
      (error: Error) => error.message,
    );
    expect(await move(broker, id, '--back')).toEqual({ stays: id });
    return said.replaceAll(sibling, 'SIBLING').replaceAll(begun.copies?.at(-1)?.name ?? '', '');
  };

  it('lacks a grant that only a superuser gives', async () => {
    const { id, url, name, sibling } = await capsule();
    await query(
      intoDatabase(two.main.superuserUrl, name),
      `GRANT EXECUTE ON FUNCTION pg_read_file(text) TO ${sibling}`,
    );
    expect(await told(id, sibling)).toBe(
      `only on the source: GRANT EXECUTE ON ROUTINE pg_catalog.pg_read_file(pg_catalog.text) TO SIBLING
the copy is not the same: its grants differ
`,
    );
    expect(await sqlstate(url)).toBe('ok');
  });

  it('has a grant that its source does not have', async () => {
    const { id, url, name, sibling } = await capsule();
    await query(
      url,
      `CREATE TABLE bait (i int);
       CREATE FUNCTION spoil() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
         IF pg_catalog.inet_server_port() = ${two.b.port} THEN GRANT SELECT ON public.bait TO ${sibling}; END IF; RETURN true; END $$;
       CREATE TABLE spoilt (i int CHECK (public.spoil())); INSERT INTO spoilt VALUES (1)`,
    );
    expect(await told(id, sibling)).toContain(
      'only on the target: GRANT SELECT ON TABLE public.bait TO SIBLING',
    );
    expect(await sqlstate(url)).toBe('ok');
    expect(name).not.toBe(sibling);
  });

  it.each([
    ['TABLE', 'CREATE TABLE theirs (i int)', 'TABLE theirs', 'TABLE public theirs'],
    [
      'FUNCTION',
      "CREATE FUNCTION theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'",
      'FUNCTION theirs()',
      'FUNCTION public theirs()',
    ],
    ['SCHEMA', 'CREATE SCHEMA theirs', 'SCHEMA theirs', 'SCHEMA - theirs'],
    [
      'OPERATOR',
      'CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)',
      'OPERATOR === (int, int)',
      'OPERATOR public ===',
    ],
  ])('would own a %s that another role owns', async (_, create, object, said) => {
    const { id, url, name, sibling } = await capsule();
    await query(url, create);
    const database = intoDatabase(two.main.superuserUrl, name);
    await query(database, `ALTER ${object} OWNER TO ${sibling}`);
    if (create.includes('TABLE')) await query(database, `GRANT SELECT ON theirs TO ${name}`);
    expect(await told(id, sibling)).toContain(`a copy would give it to that: ${said} SIBLING`);
    expect(await sqlstate(url)).toBe('ok');
  });
});
