import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, copyDatabase, findClients } from '../../../testing/postgres/clients.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { move, moveWhole } from '../testing/moves.ts';
import { query, sqlstate } from '../testing/postgres.ts';
import { openTwoServers, type TwoServers } from '../testing/servers.ts';

/**
 * A Capsule goes from PostgreSQL 15 to a server of the version of the programs here. Where these are of 15, too, as on Debian 12,
 * POSTGRES_CLIENTS names the directory of later ones.
 */
const clients: Clients = await findClients();

describe.skipIf(clients.major === '15')(
  `a Capsule that is moved from PostgreSQL 15 to ${clients.major}`,
  () => {
    let two: TwoServers;
    let broker: TestBroker;
    beforeAll(async () => {
      two = await openTwoServers({ major: '15', majorOfB: clients.major });
      broker = await two.start();
    });
    afterEach(async () => {
      for (const server of [two.main, two.b]) expect(await census(server.superuserUrl)).toEqual([]);
    });
    afterAll(async () => {
      await broker?.stop();
      await two?.close();
    });

    /** A Capsule on PostgreSQL 15 with these Assistants, and its client. */
    async function onMain(id: string, apps: readonly string[] = ['app']) {
      const placing = await two.start({ shares: { b: { drain: true } } });
      const principal = newToken('dbp').reveal();
      await placing.provisioner.provision(id, principal);
      const urls: string[] = [];
      for (const app of apps) urls.push((await placing.as(principal).create(id, app)).json.database_url);
      await placing.stop();
      return { id, url: urls[0] ?? '', urls, principal };
    }
    const now = async ({ id, principal }: { id: string; principal: string }, app = 'app'): Promise<string> =>
      (await broker.as(principal).create(id, app)).json.database_url;

    it('keeps all rows, sequences, large objects, collations and settings', async () => {
      const capsule = await onMain('later');
      await query(capsule.url, FURNITURE);
      expect(await moveWhole(broker, clients, 'later', 'b')).toEqual({ moved: 'later', to: 'b' });
      const url = await now(capsule);
      expect(two.serverOf(url)).toBe('b');
      const [found] = await query<Record<string, unknown>>(url, FACTS);
      expect(found).toEqual({
        version: Number(clients.major),
        totals: ['3.00', '7.00'],
        generated: 's',
        counter: '13',
        identity: 4,
        cycled: { increment: '5', maximum: '100', cycle: true, last: '35' },
        large: 'f'.repeat(64),
        sorted: ['b', 'a'],
        parts: { part_1: 1, part_rest: 1 },
        ranges: 1,
        found: 1,
        views: [2, 2],
        memory: '9MB',
        limit: 0.71,
        here: 'mine, public',
        odd: 'value = with, commas',
        policy: 1,
        rights: [true, false, true, false],
        kind: ['low', 'high'],
      });
      expect(await sqlstate(capsule.url)).not.toBe('ok');
      expect(
        await sqlstate(url, "INSERT INTO mine.line (a, b, at) VALUES (1, 1, '[2026-01-01,2026-01-03)')"),
      ).toBe('23P01');
      expect(await sqlstate(url, 'INSERT INTO mine.line (a) VALUES (NULL)')).toBe('23502');
    });

    it('is moved with all its Assistants, each with its own rows', async () => {
      const apps = Array.from({ length: 12 }, (_, index) => `app-${index}`);
      const capsule = await onMain('many', apps);
      for (const [index, url] of capsule.urls.entries())
        await query(url, `CREATE TABLE mine AS SELECT ${index} AS number`);
      await moveWhole(broker, clients, 'many', 'b');
      for (const [index, app] of apps.entries()) {
        const url = await now(capsule, app);
        expect([two.serverOf(url), await query(url, 'SELECT number FROM mine')]).toEqual([
          'b',
          [{ number: index }],
        ]);
      }
    });

    it('cannot be moved back, and continues where it is', async () => {
      const capsule = await onMain('there');
      await moveWhole(broker, clients, 'there', 'b');
      await expect(move(broker, 'there', 'main')).rejects.toThrow(
        `server main has PostgreSQL 15, and b ${clients.major}: upgrade it first`,
      );
      expect(await sqlstate(await now(capsule))).toBe('ok');
      expect(await move(broker, 'there', 'b')).toEqual({ moved: 'there', to: 'b' });
    });

    it('stays where it is if its role has a setting that the later version lacks, which is named', async () => {
      const capsule = await onMain('setting');
      await query(capsule.url, 'ALTER ROLE CURRENT_USER SET force_parallel_mode = off');
      const { copies = [] } = await move(broker, 'setting', 'b');
      const said = await Promise.all(copies.map((copy) => copyDatabase(clients, copy).catch(String)));
      expect(said.join()).toMatch(/settings that the target does not know: .* RESET force_parallel_mode\n/);
      await move(broker, 'setting', '--back');
      expect(await sqlstate(capsule.url)).toBe('ok');
    });

    it('stays where it is if one of its rows cannot be restored, and nothing is left on the target', async () => {
      const capsule = await onMain('stays');
      await query(capsule.url, NOT_THERE);
      const { copies = [] } = await move(broker, 'stays', 'b');
      const said = await Promise.all(copies.map((copy) => copyDatabase(clients, copy).catch(String)));
      expect(said.join()).toMatch(/cannot be restored|differ/);
      await move(broker, 'stays', '--back');
      expect(await sqlstate(capsule.url, 'SELECT FROM kept')).toBe('ok');
    });
  },
);

/** Rows that only a server of 15 takes. */
const NOT_THERE = `
  CREATE FUNCTION fits(int) RETURNS boolean LANGUAGE sql AS
    $$ SELECT pg_catalog.current_setting('server_version_num')::int < 160000 $$;
  CREATE TABLE kept (i int CHECK (public.fits(i)));
  INSERT INTO kept VALUES (1);`;

const FURNITURE = `
  CREATE EXTENSION btree_gist;
  CREATE EXTENSION pg_trgm;
  CREATE SCHEMA mine;
  CREATE COLLATION mine.german (provider = icu, locale = 'de-u-kn-true');
  CREATE TYPE mine.kind AS ENUM ('low', 'high');
  CREATE DOMAIN mine.positive AS int CHECK (VALUE > 0);
  CREATE TABLE mine.line (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a numeric(8,2) NOT NULL, b numeric(8,2) DEFAULT 1,
    total numeric GENERATED ALWAYS AS (a + b) STORED, at daterange,
    kind mine.kind DEFAULT 'low', size mine.positive DEFAULT 1, EXCLUDE USING gist (at WITH &&));
  INSERT INTO mine.line (a, b, at) VALUES (1, 2, '[2026-01-01,2026-02-01)'), (3, 4, '[2026-02-01,2026-03-01)');
  INSERT INTO mine.line (a, b, at) VALUES (5, 6, '[2026-03-01,2026-04-01)');
  DELETE FROM mine.line WHERE a = 5;
  CREATE SEQUENCE counter; SELECT setval('counter', 12);
  CREATE SEQUENCE mine.cycled INCREMENT 5 MAXVALUE 100 CYCLE; SELECT setval('mine.cycled', 35);
  SELECT lo_from_bytea(4711, decode(repeat('ff', 2100000), 'hex'));
  CREATE TABLE mine.word (text text COLLATE mine.german, bytes bytea, point point, json jsonb, real real, at timestamptz);
  INSERT INTO mine.word VALUES ('a10', '\\x00ff', '(1,2)', '{"a":1}', 'NaN', 'infinity'), ('a9', NULL, NULL, NULL, 1e-30, now());
  CREATE INDEX ON mine.word USING gin (text gin_trgm_ops);
  CREATE INDEX ON mine.word (text COLLATE mine.german);
  CREATE TABLE mine.part (day date, amount numeric) PARTITION BY RANGE (day);
  CREATE TABLE mine.part_1 PARTITION OF mine.part FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
  CREATE TABLE mine.part_rest PARTITION OF mine.part DEFAULT;
  INSERT INTO mine.part VALUES ('2026-05-05', 1), ('2030-01-01', 2);
  CREATE VIEW mine.seen AS SELECT count(*) FROM mine.line;
  CREATE MATERIALIZED VIEW mine.counted AS SELECT count(*) FROM mine.line;
  ALTER TABLE mine.word ENABLE ROW LEVEL SECURITY;
  CREATE POLICY own ON mine.word USING (true);
  ALTER TABLE mine.line ALTER COLUMN a SET STATISTICS 500;
  CREATE STATISTICS mine.both ON a, b FROM mine.line;
  CREATE PROCEDURE mine.nothing() LANGUAGE plpgsql AS 'BEGIN END';
  GRANT ALL ON mine.line TO PUBLIC;
  REVOKE DELETE ON mine.word FROM CURRENT_USER;
  REVOKE EXECUTE ON PROCEDURE mine.nothing FROM PUBLIC;
  ALTER DEFAULT PRIVILEGES IN SCHEMA mine GRANT ALL ON TABLES TO PUBLIC;
  ALTER ROLE CURRENT_USER SET work_mem = '9MB';
  SELECT similarity('a', 'b');
  ALTER ROLE CURRENT_USER SET pg_trgm.similarity_threshold = 0.71;
  ALTER ROLE CURRENT_USER SET application_name = 'value = with, commas';
  DO $$ BEGIN EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET search_path = mine, public', current_database()); END $$;`;

const FACTS = `SELECT current_setting('server_version_num')::int / 10000 AS version,
  (SELECT json_agg(total::text ORDER BY id) FROM mine.line) AS totals,
  (SELECT attgenerated::text FROM pg_attribute WHERE attrelid = 'mine.line'::regclass AND attname = 'total') AS generated,
  nextval('public.counter')::text AS counter,
  nextval(pg_get_serial_sequence('mine.line', 'id'))::int AS identity,
  (SELECT json_build_object('increment', increment_by::text, 'maximum', max_value::text, 'cycle', cycle, 'last', last_value::text)
     FROM pg_sequences WHERE sequencename = 'cycled') AS cycled,
  encode(lo_get(4711, 2000000, 32), 'hex') AS large,
  (SELECT json_agg(CASE text WHEN 'a10' THEN 'a' ELSE 'b' END ORDER BY text) FROM mine.word) AS sorted,
  (SELECT json_build_object('part_1', (SELECT count(*) FROM mine.part_1), 'part_rest', (SELECT count(*) FROM mine.part_rest))) AS parts,
  (SELECT count(*)::int FROM mine.line WHERE at @> '2026-01-15'::date) AS ranges,
  (SELECT count(*)::int FROM mine.word WHERE text LIKE '%a10%') AS found,
  (SELECT json_build_array((SELECT count FROM mine.seen), (SELECT count FROM mine.counted))) AS views,
  current_setting('work_mem') AS memory, public.show_limit()::numeric::float AS limit, current_setting('search_path') AS here, current_setting('application_name') AS odd,
  (SELECT count(*)::int FROM pg_policy) AS policy,
  ARRAY[has_table_privilege('pg_monitor', 'mine.line', 'DELETE'), has_table_privilege('mine.word', 'DELETE'), has_table_privilege('mine.word', 'INSERT'),
    has_function_privilege('pg_monitor', 'mine.nothing()', 'EXECUTE')] AS rights,
  enum_range(NULL::mine.kind)::text[] AS kind`;
