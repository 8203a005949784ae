import type pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { connect, type Fixture, openFixture, query, sqlstate } from '../testing/postgres.ts';

/**
 * PostgreSQL takes the lock of some statements before it finds that they are not permitted. While a statement waits for
 * an exclusive lock, everybody else waits behind it: for a shared catalogue or a database, that is every login.
 */
describe.each<PostgresMajor>(['15', '18'])('on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  let hostile: string;
  let victim: string;
  const sessions: pg.Client[] = [];
  const session = async (url: string) => {
    const client = await connect(url);
    sessions.push(client);
    return client;
  };
  const reasons = () =>
    fixture.broker.log.flatMap((line) => {
      const { msg, reason } = JSON.parse(line) as { msg?: string; reason?: string };
      return msg === 'session ended' && reason !== undefined ? [reason] : [];
    });
  const urlOf = async (name: string) =>
    (await (await fixture.broker.capsule(name)).create(name, 'app')).json.database_url;

  beforeAll(async () => {
    fixture = await openFixture({ major });
    [hostile, victim] = [await urlOf('hostile'), await urlOf('victim')];
  });
  afterEach(async () => {
    for (const client of sessions.splice(0)) await client.end().catch(() => undefined);
  });
  afterAll(() => fixture.close());

  const setting = (database: string) =>
    `ALTER ROLE CURRENT_USER IN DATABASE ${database} SET work_mem = '1MB'`;
  const nameOf = (url: string) => new URL(url).pathname.slice(1);

  it.each<[string, (victim: string) => string, (victim: string) => string]>([
    ["another's database", setting, (name) => `ALTER DATABASE ${name} RENAME TO mine`],
    ['the registry', () => setting('space_registry'), () => 'DROP DATABASE space_registry'],
    [
      'all databases',
      () => 'TABLE pg_database',
      () => 'CREATE RULE r AS ON INSERT TO pg_database DO NOTHING',
    ],
    ['all roles', () => 'TABLE pg_roles', () => 'CREATE RULE r AS ON INSERT TO pg_authid DO NOTHING'],
    [
      'an index',
      () => 'TABLE pg_roles',
      () => 'CREATE RULE r AS ON INSERT TO pg_authid_oid_index DO NOTHING',
    ],
    [
      'all settings',
      () => 'TABLE pg_db_role_setting',
      () => 'CREATE TABLE t PARTITION OF pg_db_role_setting DEFAULT',
    ],
    [
      'all objects',
      () => 'PREPARE p AS DELETE FROM pg_shdepend',
      () => 'CREATE TRIGGER t BEFORE INSERT ON pg_shdepend EXECUTE FUNCTION f()',
    ],
  ])('a session that waits for the lock of %s is ended, and nobody waits behind it', async (_, hold, ask) => {
    const holder = await session(hostile);
    await holder.query('SET idle_in_transaction_session_timeout = 0; BEGIN');
    await holder.query(hold(nameOf(victim)));
    const calm = await session(victim);
    const waiting = await session(hostile);
    const gone = new Promise<void>((resolve) => waiting.once('end', () => resolve()));
    const before = reasons().length;
    await expect(waiting.query(ask(nameOf(victim)))).rejects.toThrow();
    expect(await sqlstate(victim)).toBe('ok');
    expect(await sqlstate(fixture.server.brokerUrl)).toBe('ok');
    await calm.query('CREATE TABLE IF NOT EXISTS mine (n int)');
    await gone;
    await eventually(() => reasons().length > before, { what: 'the line of the log' });
    expect(reasons()).toContain('catalogue_locks');
    // Only whoever waits makes others wait.
    await holder.query('SELECT 1');
  });
});

/** A server with a tenant that means ill and another one, for as long as the test takes. */
async function openTwoTenants(environment: Record<string, string> = {}) {
  const fixture = await openFixture({}, { environment });
  onTestFinished(() => fixture.close());
  const urlOf = async (name: string): Promise<string> =>
    (await (await fixture.broker.capsule(name)).create(name, 'app')).json.database_url;
  return { fixture, hostile: await urlOf('hostile'), victim: await urlOf('victim') };
}

it('a session that holds such a lock while it waits for one of its own is ended, too', async () => {
  const { hostile, victim } = await openTwoTenants();
  await query(hostile, 'CREATE TABLE own (n int)');
  const [holder, other] = [await connect(hostile), await connect(hostile)];
  await holder.query('BEGIN; LOCK TABLE own');
  const rule = 'CREATE RULE r AS ON INSERT TO pg_shdepend DO ALSO DELETE FROM own';
  await expect(other.query(rule)).rejects.toThrow();
  await query(victim, 'CREATE TABLE t (n int)');
  for (const client of [holder, other]) await client.end();
});

it('an attack that goes on shuts nobody out', async () => {
  const { fixture, hostile, victim } = await openTwoTenants({ WATCH_INTERVAL_MS: '1' });
  const looks = async () => [...(await fixture.broker.metric('space_db_watch_looks_total')).values()][0] ?? 0;
  const holder = await connect(hostile);
  await holder.query('SET idle_in_transaction_session_timeout = 0; BEGIN; TABLE pg_database');
  let over = false;
  const attackers = Array.from({ length: 4 }, async () => {
    while (!over) {
      const client = await connect(hostile).catch(() => undefined);
      await client?.query('CREATE RULE r AS ON INSERT TO pg_database DO NOTHING').catch(() => undefined);
      await client?.end().catch(() => undefined);
    }
  });
  try {
    const from = await looks();
    while ((await looks()) < from + 600) expect(await sqlstate(victim)).toBe('ok');
  } finally {
    over = true;
    await holder.end();
    await Promise.all(attackers);
  }
});

it("the server's owner is not kept from such a lock", async () => {
  const { fixture, victim } = await openTwoTenants();
  await fixture.sql('VACUUM FULL pg_database');
  expect(await sqlstate(victim)).toBe('ok');
});
