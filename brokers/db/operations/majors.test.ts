import { readFile } from 'node:fs/promises';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import type { Reply } from '../testing/broker.ts';
import {
  connect,
  type Fixture,
  intoDatabase,
  MANY_DATABASES,
  openFixture,
  query,
  sqlstate,
} from '../testing/postgres.ts';

/** What must be the same on every major version, with one role that is no superuser and no branch on the version. */
const MAJORS: readonly PostgresMajor[] = ['15', '16', '17', '18'];

describe.each(MAJORS)('on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  beforeAll(async () => {
    // Prepared transactions are allowed here, so that a test can block a drop with one.
    fixture = await openFixture({
      major,
      settings: { ...MANY_DATABASES, max_prepared_transactions: '5', log_statement: 'all' },
      logsSessions: true,
    });
  });
  afterAll(() => fixture.close());

  it('handles the lifecycle of a Capsule', async () => {
    const { broker } = fixture;
    const principal = newToken('dbp').reveal();
    const first = await broker.provisioner.provision('life', principal);
    expect(first).toMatchObject({ status: 200, json: { created: true } });
    const again = await broker.provisioner.provision('life', principal);
    expect(again.json).toEqual({ ...first.json, created: false, trace_id: again.json.trace_id });
    const capsule = broker.as(principal);
    const created = await capsule.create('life', 'ledger');
    expect(created).toMatchObject({ status: 200, json: { created: true } });
    const url: string = created.json.database_url;
    expect((await capsule.create('life', 'ledger')).json).toMatchObject({
      created: false,
      database_url: url,
    });
    const name = new URL(url).pathname.slice(1);
    expect(await query(url, 'SELECT current_user::text, current_database()::text')).toEqual([
      { current_user: name, current_database: name },
    ]);

    expect((await capsule.drop('life', 'nothing')).status).toBe(404);
    expect((await capsule.drop('life', 'ledger')).json).toMatchObject({ dropped: name });
    expect((await capsule.drop('life', 'ledger')).json).toMatchObject({
      dropped: name,
      already_absent: true,
    });
    const other = (await capsule.create('life', 'ledger')).json.database_url;
    expect(other).not.toBe(url);
    expect((await broker.provisioner.finalize('life')).status).toBe(409);
    const names = [first.json.database_url, other].map((one) => new URL(one).pathname.slice(1)).sort();
    expect((await capsule.dropAll('life')).json.dropped).toEqual(names);
    expect((await capsule.dropAll('life')).status).toBe(403);
    expect((await broker.provisioner.provision('life', principal)).status).toBe(409);
    for (const _ of [1, 2]) expect((await broker.provisioner.finalize('life')).json.finalized).toBe(true);
    expect((await broker.provisioner.finalize('never')).status).toBe(404);

    expect((await broker.provisioner.provision('life', principal)).status).toBe(409);
    const reborn = await broker.provisioner.provision('life', newToken('dbp').reveal());
    expect(reborn.json.created).toBe(true);
    expect(reborn.json.database_url).not.toBe(first.json.database_url);
    expect(await sqlstate(first.json.database_url)).toBe('28P01');
    expect(await fixture.sql('SELECT 1 FROM pg_roles WHERE rolname = ANY ($1)', [names])).toEqual([]);
  });

  it('lets every workload into its own database and no other', async () => {
    const capsule = await fixture.broker.capsule('walls');
    const replies = await Promise.all(['a', 'b', 'c'].map((app) => capsule.create('walls', app)));
    const urls = replies.map(({ json }) => json.database_url as string);
    const databases = await fixture.sql<{ datname: string }>('SELECT datname FROM pg_database');
    for (const url of urls) {
      const own = new URL(url).pathname.slice(1);
      for (const { datname } of databases) {
        const outcome = await sqlstate(intoDatabase(url, datname));
        if (datname === own) expect(outcome).toBe('ok');
        else expect(['42501', '55000'], datname).toContain(outcome);
      }
    }
  });

  it('gives nobody else access at any moment of a creation', async () => {
    const capsule = await fixture.broker.capsule('prober');
    const url: string = (await capsule.create('prober', 'nosy')).json.database_url;
    const own = new URL(url).pathname.slice(1);
    let stop = false;
    let tries = 0;
    const inside: string[] = [];
    const probing = Array.from({ length: 3 }, async () => {
      while (!stop) {
        const rows = await query<{ datname: string }>(
          url,
          'SELECT datname::text FROM pg_database ORDER BY oid DESC LIMIT 4',
        ).catch((error: unknown) => {
          // The server counts a connection of the role for a moment after its client has ended it.
          if (error instanceof Error && 'code' in error && error.code === '53300') return [];
          throw error;
        });
        for (const { datname } of rows.filter((row) => row.datname !== own)) {
          tries += 1;
          if ((await sqlstate(intoDatabase(url, datname))) === 'ok') inside.push(datname);
        }
      }
    });
    // More than the pool holds, so that clones are seen too, and until somebody has looked often enough.
    for (let i = 0; i < 8 || tries <= 20; i += 1)
      expect((await capsule.create('prober', `app${i}`)).status).toBe(200);
    stop = true;
    await Promise.all(probing);
    expect(inside).toEqual([]);
  });

  it('gives a hostile tenant nothing outside its database', async () => {
    const capsule = await fixture.broker.capsule('hostile');
    const url: string = (await capsule.create('hostile', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    const refused = [
      `ALTER DATABASE ${name} SET search_path = evil`,
      `ALTER DATABASE ${name} CONNECTION LIMIT 100`,
      `ALTER ROLE ${name} CONNECTION LIMIT 100`,
      `ALTER DATABASE ${name} RENAME TO mine`,
      `ALTER ROLE ${name} CREATEDB`,
      'CREATE ROLE other',
      'CREATE DATABASE other',
      "COPY (SELECT 1) TO PROGRAM 'true'",
      'CREATE EVENT TRIGGER t ON ddl_command_end EXECUTE FUNCTION pg_catalog.now()',
      'SET SESSION AUTHORIZATION space_broker',
      'SET ROLE space_broker',
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'space_broker'`,
    ];
    for (const statement of refused)
      expect(await sqlstate(url, statement), statement).toMatch(/^(42501|0LP01|42P17|42883)$/);
    // Its own database is its own.
    await query(url, 'CREATE TABLE t (n int); CREATE SCHEMA s');
    // The smallest packages carry no extensions.
    expect(await sqlstate(url, 'CREATE EXTENSION pg_trgm')).toMatch(/^(ok|0A000|58P01)$/);
    expect(await sqlstate(url, 'INSERT INTO t VALUES (1); CREATE TABLE s.t (n int)')).toBe('ok');
    // Granting what it does not own does nothing, and what it may change is put back.
    await query(url, `GRANT CONNECT ON DATABASE ${name} TO PUBLIC`);
    const other: string = (await capsule.create('hostile', 'other')).json.database_url;
    expect(await sqlstate(intoDatabase(other, name))).toBe('42501');
    await query(url, `ALTER ROLE ${name} PASSWORD 'mine now'`);
    expect(await sqlstate(url)).toBe('28P01');
    expect((await capsule.create('hostile', 'app')).json.database_url).toBe(url);
    expect(await sqlstate(url)).toBe('ok');
  });

  it('never opens a session in a database of a tenant', async () => {
    const rows = await fixture.sql<{ datname: string }>(
      `SELECT DISTINCT datname FROM pg_stat_activity WHERE usename = 'space_broker'`,
    );
    expect(rows).toEqual([{ datname: 'space_registry' }]);
  });

  it('refuses a create during an interrupted drop, and completes the drop at the first attempt', async () => {
    const capsule = await fixture.broker.capsule('invalid');
    const name = new URL((await capsule.create('invalid', 'app')).json.database_url).pathname.slice(1);
    await fixture.sql('UPDATE pg_database SET datconnlimit = -2 WHERE datname = $1', [name]);
    expect((await capsule.create('invalid', 'app')).status).toBe(503);
    expect((await capsule.drop('invalid', 'app')).json).toMatchObject({ dropped: name });
    expect((await capsule.create('invalid', 'app')).json.created).toBe(true);
  });

  it('drops a database whose clients keep coming back', async () => {
    const capsule = await fixture.broker.capsule('busy');
    const url: string = (await capsule.create('busy', 'app')).json.database_url;
    const held = await connect(url);
    let stop = false;
    let late = 0;
    let tries = 0;
    const name = new URL(url).pathname.slice(1);
    const knocking = Array.from({ length: 8 }, async () => {
      while (!stop) {
        // Access is cut when the intent can be read, long before the database is dropped.
        const [row] = await fixture.registry<{ state: string }>(
          'SELECT state FROM broker.database WHERE name = $1',
          [name],
        );
        const outcome = await sqlstate(url);
        if (row?.state === 'ready') continue;
        tries += 1;
        if (outcome === 'ok') late += 1;
      }
    });
    // What keeps the database keeps the drop between the two.
    const sitter = await connect(intoDatabase(fixture.server.superuserUrl, name));
    expect((await capsule.drop('busy', 'app')).status).toBe(503);
    await eventually(() => tries > 16, { what: 'some to knock at a door that is shut' });
    await sitter.end();
    const dropped = await capsule.drop('busy', 'app');
    expect(dropped.status).toBe(200);
    await expect(held.query('SELECT 1')).rejects.toThrow();
    expect(await sqlstate(url)).not.toBe('ok');
    stop = true;
    await Promise.all(knocking);
    expect(late).toBe(0);
    await held.end().catch(() => undefined);
  });

  it('keeps the record of a blocked drop', async () => {
    const capsule = await fixture.broker.capsule('blocked');
    const url: string = (await capsule.create('blocked', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    await query(url, "BEGIN; CREATE TABLE t (n int); PREPARE TRANSACTION 'stuck'");
    const held = await connect(url);
    const blocked = await capsule.drop('blocked', 'app');
    expect(blocked).toMatchObject({ status: 503, json: { error: { code: 'unavailable' } } });
    expect(blocked.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await sqlstate(url)).not.toBe('ok');
    await expect(held.query('SELECT 1')).rejects.toThrow();
    expect((await capsule.create('blocked', 'app')).status).toBe(409);
    expect((await capsule.dropAll('blocked')).status).toBe(503);
    // While it is being dropped, its principal may do nothing else.
    expect((await capsule.create('blocked', 'new')).status).toBe(403);
    await query(intoDatabase(fixture.server.superuserUrl, name), "ROLLBACK PREPARED 'stuck'").catch(
      async () => {
        await fixture.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
        await query(intoDatabase(fixture.server.superuserUrl, name), "ROLLBACK PREPARED 'stuck'");
      },
    );
    const done = await capsule.dropAll('blocked');
    expect(done.status).toBe(200);
    expect(done.json.dropped).toContain(name);
    await held.end().catch(() => undefined);
  });

  it('does not wait for sessions in template1', async () => {
    const held = await connect(intoDatabase(fixture.server.superuserUrl, 'template1'));
    const capsule = await fixture.broker.capsule('sitter');
    // More than the pool holds, so that clones are needed too.
    const replies = await Promise.all(
      Array.from({ length: 6 }, (_, i) => capsule.create('sitter', `app${i}`)),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array(6).fill(200));
    await held.end();
  });

  it('answers 64 callers of one workload with one database', async () => {
    const capsule = await fixture.broker.capsule('race');
    // A caller that has waited too long for a connection on a busy machine is told to retry, and does.
    const ask = async (): Promise<Reply> => {
      const reply = await capsule.create('race', 'one');
      return reply.status === 503 ? ask() : reply;
    };
    const replies = await Promise.all(Array.from({ length: 64 }, ask));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    expect(replies.filter(({ json }) => json.created)).toHaveLength(1);
    const urls = new Set(replies.map(({ json }) => json.database_url));
    expect(urls.size).toBe(1);
    expect(await sqlstate([...urls][0])).toBe('ok');
  });

  it('repairs what somebody changed by hand', async () => {
    const capsule = await fixture.broker.capsule('drift');
    const url: string = (await capsule.create('drift', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    await fixture.sql(`CREATE ROLE stranger_${major} LOGIN`);
    await fixture.sql(`GRANT CONNECT ON DATABASE ${name} TO PUBLIC`);
    await fixture.sql(`GRANT ALL ON DATABASE ${name} TO stranger_${major}`);
    await fixture.sql(`ALTER DATABASE ${name} CONNECTION LIMIT 50`);
    await fixture.sql(`ALTER ROLE ${name} NOLOGIN CREATEDB CONNECTION LIMIT 50 VALID UNTIL '2020-01-01'`);
    await fixture.broker.round('drift');
    expect(await sqlstate(url)).toBe('ok');
    const [walls] = await fixture.sql(
      `SELECT r.rolcreatedb, r.rolconnlimit, d.datconnlimit, d.datacl::text AS acl
       FROM pg_roles r JOIN pg_database d ON d.datname = r.rolname WHERE r.rolname = $1`,
      [name],
    );
    expect(walls).toEqual({
      rolcreatedb: false,
      rolconnlimit: 5,
      datconnlimit: 5,
      acl: `{space_broker=CTc/space_broker,${name}=CTc/space_broker}`,
    });
  });

  it('completes a drop whose broker died, without a request', async () => {
    const capsule = await fixture.broker.capsule('orphan');
    const name = new URL((await capsule.create('orphan', 'app')).json.database_url).pathname.slice(1);
    await fixture.registry(
      "UPDATE broker.database SET state = 'dropping', changed_at = now() - interval '1 hour' WHERE name = $1",
      [name],
    );
    await fixture.broker.round('pending drops');
    await eventually(
      async () => (await fixture.sql('SELECT 1 FROM pg_roles WHERE rolname = $1', [name])).length === 0,
      { what: 'the drop' },
    );
    expect((await capsule.drop('orphan', 'app')).json.already_absent).toBe(true);
  });

  it('sends no password to the server', async () => {
    const capsule = await fixture.broker.capsule('secret');
    const url = new URL((await capsule.create('secret', 'app')).json.database_url);
    const log = await readFile(fixture.server.logPath, 'utf8');
    expect(log).toContain('CREATE ROLE');
    expect(log).not.toContain(url.password);
    expect(fixture.broker.log.join('')).not.toContain(url.password);
    expect(fixture.broker.log.join('')).not.toContain(capsule.token);
  });
});
