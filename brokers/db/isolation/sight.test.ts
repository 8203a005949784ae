import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { connect, type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';

/** What the views of a shared server tell one tenant of another; docs/postgres.md and the threat model name it. */
describe.each<PostgresMajor>(['15', '17', '18'])('on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  let observed: pg.Client;
  let observer: pg.Client;
  let observerUrl: string;
  let name: string;
  beforeAll(async () => {
    fixture = await openFixture({ major });
    const urlOf = async (id: string): Promise<string> => {
      const capsule = await fixture.broker.capsule(id);
      return (await capsule.create(id, 'app')).json.database_url;
    };
    const url = await urlOf('observed');
    name = new URL(url).pathname.slice(1);
    observed = await connect(url);
    await observed.query(`SET application_name = 'seen_application'; ALTER ROLE ${name} SET search_path = seen_setting, public;
      CREATE TABLE hidden_table (hidden_column text); INSERT INTO hidden_table VALUES ('hidden_row');
      COMMENT ON TABLE hidden_table IS 'hidden_comment'; ANALYZE hidden_table;
      CREATE FUNCTION hidden_function() RETURNS int LANGUAGE sql AS 'SELECT 1 /* hidden_body */';
      PREPARE hidden_prepared AS SELECT 1; SELECT lo_from_bytea(0, 'hidden_object')`);
    await observed.query('LISTEN hidden_channel');
    await observed.query("BEGIN; DECLARE hidden_cursor CURSOR FOR SELECT 'hidden_query' FROM hidden_table");
    observerUrl = await urlOf('observer');
    observer = await connect(observerUrl);
  });
  afterAll(async () => {
    await observed.end();
    await observer.end();
    await fixture.close();
  });

  it('a tenant sees names, settings and the existence of sessions of others, and nothing of what they do or have', async () => {
    const { rows } = await observer.query<{ relation: string }>(
      `SELECT oid::regclass::text AS relation FROM pg_class
       WHERE relkind IN ('r', 'v', 'm') AND has_table_privilege(oid, 'SELECT')`,
    );
    expect(rows.length).toBeGreaterThan(150);
    const told: Record<string, string[]> = {};
    for (const relation of [...rows.map((row) => row.relation), 'pg_stat_get_activity(NULL)']) {
      const found = await observer
        .query<{ text: string }>(`SELECT it::text AS text FROM ${relation} it`)
        .catch(() => ({ rows: [] }));
      // Its own session is in the same views.
      for (const word of ['seen_', 'hidden_', '127.0.0.1'])
        if (
          found.rows.some(({ text }) => text.includes(word) && (word !== '127.0.0.1' || text.includes(name)))
        )
          told[word] = [...(told[word] ?? []), relation];
    }
    expect(told).toEqual({
      seen_: expect.arrayContaining(['pg_stat_activity', 'pg_db_role_setting', 'pg_roles']),
    });
    const [session] = (
      await observer.query(
        'SELECT application_name, query, state, client_addr, client_port, xact_start, query_start, backend_start FROM pg_stat_activity WHERE usename = $1',
        [name],
      )
    ).rows;
    expect(session).toEqual({
      application_name: 'seen_application',
      query: '<insufficient privilege>',
      state: null,
      client_addr: null,
      client_port: null,
      xact_start: null,
      query_start: null,
      backend_start: null,
    });
    for (const refused of [
      `SELECT pg_database_size('${name}')`,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${name}'`,
      `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = '${name}'`,
      'SELECT * FROM pg_authid',
      "SELECT pg_ls_dir('.')",
      "SELECT current_setting('data_directory')",
    ])
      expect(await sqlstate(observerUrl, refused), refused).toBe('42501');
  });
});
