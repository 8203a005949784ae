import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { census } from '../testing/census.ts';
import { connect, type Fixture, intoDatabase, openFixture, query, sqlstate } from '../testing/postgres.ts';

/**
 * What blocks a drop for good: what only the server's owner can do or take away. Of all this a tenant can do one thing by
 * itself, on a server whose owner allows prepared transactions. What it can do on every server is in `tenants.test.ts`.
 */
describe.each(['15', '18'] as const)('on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openFixture({
      major,
      settings: { wal_level: 'logical', max_prepared_transactions: '5' },
    });
  });
  afterAll(() => fixture.close());

  /** A logical slot that is being read from; ends with its connection. */
  async function readSlot(url: string): Promise<() => Promise<void>> {
    await query(url, "SELECT pg_create_logical_replication_slot('held', 'pgoutput')");
    const reader = new pg.Client({ connectionString: url, replication: 'database' } as pg.ClientConfig);
    reader.on('error', () => undefined);
    await reader.connect();
    const options = "(proto_version '1', publication_names 'none')";
    reader.query(`START_REPLICATION SLOT held LOGICAL 0/0 ${options}`).catch(() => undefined);
    await eventually(
      async () => {
        const [slot] = await fixture.sql<{ active: boolean }>('SELECT active FROM pg_replication_slots');
        return slot?.active === true;
      },
      { what: 'the slot to be read' },
    );
    return async () => {
      await fixture.sql('SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active');
    };
  }

  async function subscribe(url: string): Promise<() => Promise<void>> {
    await query(
      url,
      "CREATE SUBSCRIPTION held CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false, slot_name = NONE)",
    );
    return async () => {
      const name = new URL(url).pathname.slice(1);
      await fixture.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
      await query(url, 'DROP SUBSCRIPTION held');
    };
  }

  async function prepare(url: string): Promise<() => Promise<void>> {
    await query(url, "BEGIN; CREATE TABLE t (n int); PREPARE TRANSACTION 'held'");
    return async () => {
      const name = new URL(url).pathname.slice(1);
      await fixture.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
      await query(url, "ROLLBACK PREPARED 'held'");
    };
  }

  async function sit(url: string): Promise<() => Promise<void>> {
    const sitter = await connect(url);
    return () => sitter.end();
  }

  it.each([
    ['a replication slot that is read from', readSlot],
    ['a subscription', subscribe],
    ['a prepared transaction', prepare],
    ['a session of a superuser', sit],
  ])(
    '%s blocks a drop but gives no access; the broker completes the drop by itself when it ends',
    async (_, block) => {
      const capsule = await fixture.broker.capsule(`kept-${block.name.toLowerCase()}`);
      const id = `kept-${block.name.toLowerCase()}`;
      const url: string = (await capsule.create(id, 'app')).json.database_url;
      const name = new URL(url).pathname.slice(1);
      const tenant = await connect(url);
      const lift = await block(intoDatabase(fixture.server.superuserUrl, name));

      const blocked = await capsule.drop(id, 'app');
      expect(blocked).toMatchObject({ status: 503, json: { error: { code: 'unavailable' } } });
      expect(blocked.headers.get('retry-after')).toMatch(/^\d+$/);
      await expect(tenant.query('SELECT 1')).rejects.toThrow();
      expect(await sqlstate(url)).not.toBe('ok');
      expect((await capsule.create(id, 'app')).status).toBe(409);
      const pending = async () => {
        // As if a minute had passed since the last request.
        await fixture.registry(
          "UPDATE broker.database SET changed_at = now() - interval '1 hour' WHERE state = 'dropping'",
        );
        await fixture.broker.round('pending drops');
        const [row] = await fixture.registry<{ state: string }>(
          'SELECT state FROM broker.database WHERE name = $1',
          [name],
        );
        return row?.state;
      };
      expect(await pending()).toBe('dropping');
      const metrics = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
      expect(metrics).toMatch(/^space_db_drops_pending 1$/m);

      await lift();
      await eventually(async () => (await pending()) === 'dropped', { what: 'the broker to finish' });
      expect((await capsule.drop(id, 'app')).json).toMatchObject({ dropped: name, already_absent: true });
      expect((await capsule.dropAll(id)).status).toBe(200);
      expect(await census(fixture.server.superuserUrl)).toEqual([]);
      await tenant.end().catch(() => undefined);
    },
  );

  /** A transaction that changes the role, in a session that the broker may not end. */
  async function holdRole(name: string): Promise<() => Promise<void>> {
    const holder = await connect(fixture.server.superuserUrl);
    await holder.query(`BEGIN; ALTER ROLE ${name} VALID UNTIL 'infinity'`);
    return () => holder.end();
  }

  async function prepareRole(name: string, url: string): Promise<() => Promise<void>> {
    await query(url, `BEGIN; ALTER ROLE ${name} PASSWORD 'mine'; PREPARE TRANSACTION 'role'`);
    return async () => {
      await query(intoDatabase(fixture.server.superuserUrl, name), "ROLLBACK PREPARED 'role'");
    };
  }

  it.each([
    ['a transaction of a superuser', holdRole],
    ['a prepared transaction', prepareRole],
  ])(
    '%s on the role delays the cut but not the record of the drop; access ends as soon as possible',
    async (_, hold) => {
      const id = `role-${hold.name.toLowerCase()}`;
      const capsule = await fixture.broker.capsule(id);
      const url: string = (await capsule.create(id, 'app')).json.database_url;
      const name = new URL(url).pathname.slice(1);
      const lift = await hold(name, url);
      const refused = await capsule.drop(id, 'app');
      expect(refused).toMatchObject({ status: 503, json: { error: { code: 'unavailable' } } });
      expect((await capsule.create(id, 'app')).status).toBe(409);
      expect((await capsule.drop(id, 'app')).status).toBe(503);
      // Nothing is dropped whose doors are open still.
      expect(await fixture.sql('SELECT 1 FROM pg_database WHERE datname = $1', [name])).toHaveLength(1);
      await lift();
      expect((await capsule.drop(id, 'app')).json).toMatchObject({ dropped: name });
      expect(await sqlstate(url)).not.toBe('ok');
      expect((await capsule.dropAll(id)).status).toBe(200);
      expect(await census(fixture.server.superuserUrl)).toEqual([]);
    },
  );

  it('a transaction of an administrator of the server is not ended, and the caller of the drop is told to retry', async () => {
    const capsule = await fixture.broker.capsule('operated');
    const url: string = (await capsule.create('operated', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    await fixture.sql(`CREATE ROLE operating LOGIN CREATEROLE PASSWORD 'operating'`);
    await fixture.sql('GRANT CONNECT ON DATABASE postgres TO operating');
    if (major === '18') await fixture.sql(`GRANT ${name} TO operating WITH ADMIN OPTION`);
    const own = new URL(fixture.server.superuserUrl);
    [own.username, own.password] = ['operating', 'operating'];
    const holder = await connect(own.href);
    await holder.query(`BEGIN; ALTER ROLE ${name} VALID UNTIL 'infinity'`);
    expect((await capsule.drop('operated', 'app')).status).toBe(503);
    await holder.query('ROLLBACK');
    await holder.end();
    expect((await capsule.drop('operated', 'app')).json).toMatchObject({ dropped: name });
  });
});
