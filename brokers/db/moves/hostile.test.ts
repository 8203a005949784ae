import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Clients, copyDatabase, findClients } from '../../../testing/postgres/clients.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { copyAll, move, moveWhole } from '../testing/moves.ts';
import { connect, intoDatabase, query, sqlstate } from '../testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/** Tenants that resist a move, and servers that become unavailable during it. */

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

/**
 * A path with another `timeout`, by which a restore has only some seconds: the other steps of a copy may take as long as
 * they do on a busy machine.
 */
function shortRestores(): string {
  const directory = mkdtempSync(join(tmpdir(), 'space-copy-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const program = join(directory, 'timeout');
  const text = `#!/bin/sh
PATH=\${PATH#*:}
[ "$2" != pg_restore ] || { shift; set -- 6 "$@"; }
exec timeout "$@"
`;
  writeFileSync(program, text);
  chmodSync(program, 0o755);
  return `${directory}:${clients.env['PATH']}`;
}

let names = 0;
async function capsule() {
  names += 1;
  const id = `tenant-${names}`;
  const principal = newToken('dbp').reveal();
  await broker.provisioner.provision(id, principal);
  const url: string = (await broker.as(principal).create(id, 'app')).json.database_url;
  expect(two.serverOf(url)).toBe('main');
  return { id, principal, url, name: new URL(url).username };
}
/** Begins to move it, and says what to copy of its Assistant. */
async function begin(id: string) {
  const begun = await move(broker, id, 'b');
  const copy = begun.copies?.find(({ app }) => app === 'app');
  if (copy === undefined) throw new Error('nothing to copy');
  return { ...begun, copy };
}

/** Settings of a tenant's own. */
const settingsOn = (superuserUrl: string, url: string) =>
  query(
    superuserUrl,
    `SELECT unnest(setconfig) AS one FROM pg_db_role_setting
     WHERE setrole = '${new URL(url).username}'::regrole AND setdatabase = 0 ORDER BY 1`,
  );

describe('a tenant', () => {
  it('that locks its own role and database loses its sessions', async () => {
    const { id, principal, url, name } = await capsule();
    const [holding, changing] = [await connect(url), await connect(url)];
    await holding.query(
      `SET idle_in_transaction_session_timeout = 0; BEGIN; GRANT CONNECT ON DATABASE ${name} TO ${name}`,
    );
    const ended = expect(
      changing.query(
        `DO $$ BEGIN LOOP EXECUTE 'ALTER ROLE ${name} PASSWORD ''mine'''; COMMIT; END LOOP; END $$`,
      ),
    ).rejects.toThrow();
    const begun = await begin(id);
    await ended;
    await expect(holding.query('SELECT 1')).rejects.toThrow();
    const known = new URL(url);
    for (const password of [known.password, 'mine']) {
      known.password = password;
      expect(await sqlstate(known.href)).toBe('28P01');
    }
    await copyAll(clients, begun.copies);
    await move(broker, id, 'b', '--copied', begun.attempt ?? '');
    expect(two.serverOf((await broker.as(principal).create(id, 'app')).json.database_url)).toBe('b');
  });

  it('whose functions run during the restore has only its own rights there', async () => {
    const { id, principal, url, name } = await capsule();
    const trace = `CREATE TABLE trace (who text, session text, super text);
      CREATE FUNCTION spy(i int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM pg_class WHERE relname = 'trace') THEN
          INSERT INTO public.trace VALUES (current_user, session_user, current_setting('is_superuser'));
        END IF; RETURN true; END $$;
      CREATE TABLE watched (i int CHECK (public.spy(i)));
      INSERT INTO watched VALUES (1); TRUNCATE trace;`;
    await query(url, trace);
    const { copy } = await begin(id);
    // It writes what the source does not have, so the two differ.
    await expect(copyDatabase(clients, copy)).rejects.toThrow(/differ/);
    const [row] = await query(copy.to, 'SELECT * FROM trace');
    expect(row).toEqual({ who: name, session: name, super: 'off' });
    await move(broker, id, '--back');
    expect((await broker.as(principal).create(id, 'app')).json.database_url).toBe(url);
  });

  it.each<[string, string, () => Record<string, string>, RegExp]>([
    ['never ends', 'PERFORM pg_sleep(3600);', () => ({ PATH: shortRestores() }), /cannot be restored/],
    [
      'writes without end',
      'LOOP INSERT INTO public.filler SELECT repeat(md5(n::text), 30) FROM generate_series(1, 2000) n; END LOOP;',
      () => ({ COPY_SPARE_BYTES: '4000000' }),
      /has grown beyond/,
    ],
  ])('whose function %s on the target delays only its own move', async (_, act, settings, why) => {
    const { id, principal, url } = await capsule();
    await query(
      url,
      `CREATE TABLE filler (text text);
       CREATE FUNCTION spoil(i int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
         IF inet_server_port() = ${two.b.port} THEN ${act} END IF; RETURN true; END $$;
       CREATE TABLE spoilt (i int CHECK (public.spoil(i))); INSERT INTO spoilt VALUES (1);`,
    );
    const { copy } = await begin(id);
    await expect(copyDatabase(clients, copy, settings())).rejects.toThrow(why);
    expect(await move(broker, id, '--back')).toEqual({ stays: id });
    expect((await broker.as(principal).create(id, 'app')).json.database_url).toBe(url);
    expect(await sqlstate(url)).toBe('ok');
  });

  it('with commands in names and settings has these copied, and none is run', async () => {
    const { id, principal, url } = await capsule();
    const marks = ['table', 'setting', 'body'].map((one) =>
      join(tmpdir(), `space-moved-${process.pid}-${one}`),
    );
    for (const mark of marks) rmSync(mark, { force: true });
    const [inTable, inSetting, inBody] = marks;
    await query(
      url,
      `CREATE SCHEMA evil;
       CREATE FUNCTION evil.current_database() RETURNS name LANGUAGE sql AS $$SELECT 'nothing'::name$$;
       CREATE TABLE "x\n\\! touch ${inTable}\n" (a int); INSERT INTO "x\n\\! touch ${inTable}\n" VALUES (7);
       CREATE FUNCTION body() RETURNS text LANGUAGE sql AS $$SELECT '
\\! touch ${inBody}
'$$;
       ALTER ROLE CURRENT_USER SET search_path = evil, "it's $$;\n\\! touch ${inSetting}\n", public, pg_catalog;
       ALTER ROLE CURRENT_USER SET statement_timeout = '1ms';
       ALTER ROLE CURRENT_USER SET default_transaction_read_only = on;
       ALTER ROLE CURRENT_USER SET standard_conforming_strings = off;`,
    );
    const before = await settingsOn(two.main.superuserUrl, url);
    expect(before).toHaveLength(4);
    expect(await moveWhole(broker, clients, id, 'b')).toEqual({ moved: id, to: 'b' });
    for (const mark of marks) expect(existsSync(String(mark))).toBe(false);
    const there: string = (await broker.as(principal).create(id, 'app')).json.database_url;
    expect(await settingsOn(two.b.superuserUrl, there)).toEqual(before);
  });

  it('that hides rows from itself, or uses a missing extension, gets an error that says so', async () => {
    const hidden = await capsule();
    await query(
      hidden.url,
      `CREATE TABLE secret (a int); ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ALTER TABLE secret FORCE ROW LEVEL SECURITY`,
    );
    await expect(copyDatabase(clients, (await begin(hidden.id)).copy)).rejects.toThrow(
      /NO FORCE ROW LEVEL SECURITY: public.secret/,
    );
    await move(broker, hidden.id, '--back');

    const lacking = await capsule();
    await query(
      intoDatabase(two.main.superuserUrl, lacking.name),
      `INSERT INTO pg_extension SELECT 99999, 'vector', extowner, extnamespace, extrelocatable, extversion, extconfig, extcondition
       FROM pg_extension`,
    );
    await expect(copyDatabase(clients, (await begin(lacking.id)).copy)).rejects.toThrow(
      /lacks extensions that the database has: vector/,
    );
    await move(broker, lacking.id, '--back');
    expect(await sqlstate(lacking.url)).toBe('ok');
  });
});

describe('a tenant of the target', () => {
  it('whose grants name the role of another Capsule does not prevent its move, nor its return', async () => {
    const neighbour = await capsule();
    await moveWhole(broker, clients, neighbour.id, 'b');
    const victim = await capsule();
    await query(
      victim.url,
      'CREATE TABLE kept AS SELECT 7 AS a; ALTER ROLE CURRENT_USER SET work_mem = 99999',
    );
    const hostile: string = (await broker.as(neighbour.principal).create(neighbour.id, 'app')).json
      .database_url;
    await begin(victim.id);
    await query(hostile, `CREATE TABLE bait (); GRANT SELECT ON bait TO ${victim.name}`);
    await query(
      intoDatabase(two.b.superuserUrl, 'postgres'),
      `ALTER ROLE ${victim.name} SET statement_timeout = 1`,
    );
    expect(await move(broker, victim.id, '--back')).toEqual({ stays: victim.id });

    expect(await moveWhole(broker, clients, victim.id, 'b')).toEqual({ moved: victim.id, to: 'b' });
    expect(await moveWhole(broker, clients, victim.id, 'main')).toEqual({ moved: victim.id, to: 'main' });
    expect(await moveWhole(broker, clients, victim.id, 'b')).toEqual({ moved: victim.id, to: 'b' });
    const { json } = await broker.as(victim.principal).create(victim.id, 'app');
    expect(two.serverOf(json.database_url)).toBe('b');
    expect(await query(json.database_url, 'SELECT a FROM kept')).toEqual([{ a: 7 }]);
    expect(await settingsOn(two.b.superuserUrl, json.database_url)).toEqual([{ one: 'work_mem=99999kB' }]);
    expect(await two.registry(two.b, 'SELECT name FROM broker.leftover_role')).toEqual([]);
  });
});

describe('a server that is unavailable', () => {
  const untilReady = () =>
    eventually(() => broker.servers.all.every((server) => server.state().kind === 'ready'), {
      what: 'both servers to be used',
    });
  const untilAway = () =>
    eventually(() => broker.servers.all.some((server) => server.state().kind !== 'ready'), {
      what: 'the outage to be seen',
    });

  it('as the target, allows the move to be undone until a landing has begun', async () => {
    const { id, principal, url } = await capsule();
    const { copy, attempt } = await begin(id);
    await copyDatabase(clients, copy);
    await two.b.stop();
    try {
      await untilAway();
      await expect(move(broker, id, 'b')).rejects.toThrow(/server b/);
      await expect(move(broker, id, 'b', '--copied', attempt ?? '')).rejects.toThrow(/server b/);
      expect(await move(broker, id, '--back')).toEqual({ stays: id, unanswered: ['b'] });
      expect((await broker.as(principal).create(id, 'app')).json.database_url).toBe(url);
      expect(await sqlstate(url)).toBe('ok');
    } finally {
      await two.b.start();
    }
    await untilReady();
    expect(await sqlstate(copy.to)).toBe('ok');
    expect(await move(broker, id, '--back')).toEqual({ stays: id });
    expect(await sqlstate(copy.to)).not.toBe('ok');
  });

  it('as the target, is waited for once a landing has begun', async () => {
    const { id, principal } = await capsule();
    const { copies, attempt = '' } = await begin(id);
    await copyAll(clients, copies);
    const doomed = await two.start({
      failpoint: (name) => {
        if (name === 'move:after-shut') throw new Error('cut short');
      },
    });
    await expect(move(doomed, id, 'b', '--copied', attempt)).rejects.toThrow('cut short');
    await doomed.stop();
    await two.b.stop();
    try {
      await untilAway();
      await expect(move(broker, id, '--back')).rejects.toThrow(/may have the Capsule already/);
      expect((await broker.as(principal).create(id, 'app')).status).toBe(503);
    } finally {
      await two.b.start();
    }
    await untilReady();
    expect(await move(broker, id, 'b', '--copied', attempt)).toEqual({ moved: id, to: 'b' });
    expect((await broker.as(principal).create(id, 'app')).json.created).toBe(false);
  });

  it('as the source, after the landing, delays only this Capsule, which leaves it when it is back', async () => {
    const { id, principal } = await capsule();
    const first = await begin(id);
    await copyAll(clients, first.copies);
    await move(broker, id, 'b', '--copied', first.attempt ?? '');
    const { copies, attempt = '' } = await move(broker, id, 'main');
    await copyAll(clients, copies);
    const doomed = await two.start({
      failpoint: (name) => {
        if (name === 'move:after-landing') throw new Error('cut short');
      },
    });
    await expect(move(doomed, id, 'main', '--copied', attempt)).rejects.toThrow('cut short');
    await doomed.stop();
    await two.b.stop();
    try {
      await untilAway();
      await expect(move(broker, id, 'main')).rejects.toThrow(/server b/);
      expect((await broker.as(principal).create(id, 'app')).status).toBe(503);
    } finally {
      await two.b.start();
    }
    await untilReady();
    expect(await move(broker, id, 'main')).toEqual({ moved: id, to: 'main' });
    const { json } = await broker.as(principal).create(id, 'app');
    expect(two.serverOf(json.database_url)).toBe('main');
    expect(await sqlstate(json.database_url)).toBe('ok');
  });
});
