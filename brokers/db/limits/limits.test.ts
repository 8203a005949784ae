import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { COMMANDS } from '../commands.ts';
import type { Client } from '../testing/broker.ts';
import { connect, type Fixture, openFixture, query, sqlstate } from '../testing/postgres.ts';

const MI = 2 ** 20;
/** Full pages of what cannot be compressed. */
const FILL = (mebibytes: number) =>
  `CREATE TABLE IF NOT EXISTS heap (t text); ALTER TABLE heap ALTER t SET STORAGE PLAIN;
   INSERT INTO heap SELECT repeat(chr(65 + i % 26), 8000) FROM generate_series(1, ${mebibytes * 128}) i`;

describe.each<PostgresMajor>(['15', '17', '18'])('limits of a Capsule, on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  const limits = (capsule_id: string, more: object = {}) =>
    fixture.broker.provisioner.post('/v1/capsules/limits', { capsule_id, ...more });
  const sizes = () => fixture.broker.round('sizes');
  /** What a session did is counted a moment after its end. */
  const settled = (isSo: () => Promise<boolean>) =>
    eventually(
      async () => {
        await sizes();
        return isSo();
      },
      { what: 'the doors' },
    );
  const login = (url: string, state: string) => settled(async () => (await sqlstate(url)) === state);
  const standing = (name: string, bytes: number, wanted: string) =>
    settled(async () => (await limits(name, { database_bytes: bytes })).json.standing === wanted);
  const capsuleWithApp = async (name: string): Promise<{ capsule: Client; url: string }> => {
    const capsule = await fixture.broker.capsule(name);
    const { json } = await capsule.create(name, 'ledger');
    return { capsule, url: json.database_url };
  };
  const command = (name: string, ...args: string[]) =>
    COMMANDS[name]!.run(fixture.broker.servers, 'test', args, async () => '');
  const roleLimits = async (url: string) => {
    const name = new URL(url).username;
    const [row] = await fixture.sql<{ role: number; database: number; open: boolean }>(
      `SELECT rolconnlimit AS role, datconnlimit AS database, datallowconn AS open
       FROM pg_roles JOIN pg_database ON datname = rolname WHERE rolname = $1`,
      [name],
    );
    return row;
  };

  beforeAll(async () => {
    // Looked at by hand, so that a test sees each step.
    fixture = await openFixture({ major }, { environment: { SIZE_INTERVAL_MS: '1000000' } });
  });
  afterAll(() => fixture.close());

  it('are read and set only by the provisioner, and setting them again changes nothing', async () => {
    const { capsule } = await capsuleWithApp('told');
    const first = await limits('told');
    expect(first.json).toEqual({
      database_bytes: 1024 * MI,
      connections: 5,
      used_bytes: expect.any(Number),
      standing: 'ok',
      trace_id: expect.any(String),
    });
    expect((await limits('told', { database_bytes: 64 * MI, connections: 3 })).json).toMatchObject({
      database_bytes: 64 * MI,
      connections: 3,
    });
    await sizes();
    expect((await fixture.broker.metric('space_db_quota_bytes')).get('')).toBe(64 * MI);
    const audits = () => fixture.registry("SELECT FROM broker.audit WHERE operation = 'capsule.limits'");
    const { length } = await audits();
    expect((await limits('told', { database_bytes: 64 * MI, connections: 3 })).status).toBe(200);
    expect((await audits()).length).toBe(length);
    expect((await limits('told')).json).toMatchObject({ database_bytes: 1024 * MI, connections: 5 });
    expect((await limits('nobody')).status).toBe(404);
    expect((await capsule.post('/v1/capsules/limits', { capsule_id: 'told' })).status).toBe(403);
    for (const bad of [{ connections: 0 }, { database_bytes: 0 }, { database_bytes: 1.5 }, { other: 1 }])
      expect((await limits('told', bad)).status).toBe(400);
    await capsule.dropAll('told');
    expect((await limits('told')).status).toBe(409);
  });

  it('report the usage of one Assistant only to its Capsule', async () => {
    const { capsule, url } = await capsuleWithApp('sized');
    await capsule.create('sized', 'small');
    const asked = (who: Client, app: string, capsule_id = 'sized') =>
      who.post('/v1/capsules/apps/usage', { capsule_id, app_id: app });
    const bytes = async (app: string) => (await asked(capsule, app)).json.used_bytes;
    const empty = await bytes('ledger');
    expect(empty).toBeGreaterThan(MI);
    await query(url, FILL(8));
    expect((await bytes('ledger')) - empty).toBeGreaterThanOrEqual(8 * MI);
    expect(await bytes('small')).toBe(empty);
    const { capsule: other } = await capsuleWithApp('unsized');
    for (const [who, status] of [
      [fixture.broker.provisioner, 403],
      [other, 403],
    ] as const)
      expect((await asked(who, 'ledger')).status).toBe(status);
    expect((await asked(capsule, 'nothing')).status).toBe(404);
    await capsule.drop('sized', 'small');
    expect((await asked(capsule, 'small')).status).toBe(404);
  });

  it('of connections apply to existing and new databases, and drift is repaired to them', async () => {
    const { capsule, url } = await capsuleWithApp('few');
    await limits('few', { connections: 2 });
    expect(await roleLimits(url)).toEqual({ role: 2, database: 2, open: true });
    const held = [await connect(url), await connect(url)];
    expect(await sqlstate(url)).toBe('53300');
    for (const client of held) await client.end();
    const other = (await capsule.create('few', 'other')).json.database_url;
    expect(await roleLimits(other)).toEqual({ role: 2, database: 2, open: true });
    await fixture.sql(`ALTER ROLE ${new URL(url).username} CONNECTION LIMIT 50`);
    await fixture.broker.round('drift');
    expect(await roleLimits(url)).toEqual({ role: 2, database: 2, open: true });
    await limits('few');
    expect(await roleLimits(url)).toEqual({ role: 5, database: 5, open: true });
  });

  it('refuse only what the server has no connections for', async () => {
    const { capsule, url } = await capsuleWithApp('greedy');
    expect((await limits('greedy', { connections: 1_000 })).json.error.code).toBe('quota_exceeded');
    expect(await roleLimits(url)).toEqual({ role: 5, database: 5, open: true });
    expect((await limits('greedy', { connections: 80 })).status).toBe(200);
    const second = await capsule.create('greedy', 'second');
    expect([second.status, second.json.error.code]).toEqual([507, 'quota_exceeded']);
    expect((await capsule.create('greedy', 'ledger')).json).toMatchObject({ created: false });
    await limits('greedy', { connections: 5 });
    expect((await capsule.create('greedy', 'second')).status).toBe(200);
  });

  it('of bytes end the sessions of a Capsule above them, allow one to free space, and open again afterwards', async () => {
    const { capsule, url } = await capsuleWithApp('full');
    const held = await connect(url);
    const gone = new Promise<void>((resolve) => held.once('end', () => resolve()));
    const { used_bytes: before } = (await limits('full')).json;
    expect(before).toBeGreaterThan(4 * MI);
    await limits('full', { database_bytes: before + 100 * MI });
    await query(url, FILL(90));
    await standing('full', before + 100 * MI, 'near');
    await query(url, FILL(20));
    // Nor does a lock on its own database keep it open.
    await held.query(
      `BEGIN; ALTER ROLE CURRENT_USER IN DATABASE ${new URL(url).username} SET work_mem = '1MB'`,
    );
    await standing('full', before + 100 * MI, 'full');
    await gone;
    expect(await roleLimits(url)).toEqual({ role: 5, database: 1, open: true });
    // Another limit of connections leaves it the one that it has to free space.
    await limits('full', { database_bytes: before + 100 * MI, connections: 6 });
    expect(await roleLimits(url)).toEqual({ role: 6, database: 1, open: true });
    await limits('full', { database_bytes: before + 100 * MI });
    expect((await capsule.create('full', 'more')).json.error.code).toBe('quota_exceeded');
    expect((await capsule.create('full', 'ledger')).status).toBe(200);
    await query(url, 'TRUNCATE heap');
    await standing('full', before + 100 * MI, 'ok');
    expect(await roleLimits(url)).toEqual({ role: 5, database: 5, open: true });
    expect((await capsule.create('full', 'more')).status).toBe(200);
  });

  it('of bytes also end a session that began while its database was being shut', async () => {
    const { url } = await capsuleWithApp('late');
    const name = new URL(url).username;
    const bytes = (await limits('late')).json.used_bytes + 100 * MI;
    await limits('late', { database_bytes: bytes });
    await query(url, FILL(110));
    // The sweep has ended all sessions, and waits.
    const other = await connect(fixture.server.superuserUrl);
    await other.query(`BEGIN; ALTER DATABASE ${name} CONNECTION LIMIT 7`);
    const sweep = sizes();
    const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%ALTER DATABASE ${name}%'`;
    await eventually(async () => (await fixture.sql(waiting)).length > 0, { what: 'the sweep to wait' });
    const late = await connect(url);
    const gone = new Promise<void>((resolve) => late.once('end', () => resolve()));
    await other.query('ROLLBACK');
    await sweep;
    await standing('late', bytes, 'full');
    await gone;
    await other.end();
  });

  it('close a Capsule that continues to grow, whoever opens its databases by hand', async () => {
    const { url } = await capsuleWithApp('grows');
    await limits('grows', { database_bytes: 120 * MI });
    await query(url, FILL(115));
    await standing('grows', 120 * MI, 'full');
    expect(await sqlstate(url)).toBe('ok');
    await query(url, FILL(20));
    await login(url, '55000');
    await fixture.broker.round('drift');
    expect(await sqlstate(url)).toBe('55000');
    await command('open', 'grows');
    expect(await sqlstate(url)).toBe('55000');
    await fixture.sql(`ALTER DATABASE ${new URL(url).username} ALLOW_CONNECTIONS true`);
    await login(url, '55000');
    // The pause is over.
    await fixture.registry("UPDATE broker.capsule_limits SET until_ms = 0 WHERE capsule_id = 'grows'");
    await login(url, 'ok');
    await query(url, FILL(60));
    await standing('grows', 120 * MI, 'closed');
    expect(await sqlstate(url)).toBe('55000');
    await limits('grows', { database_bytes: 400 * MI });
    await login(url, 'ok');
  });

  it('of bytes hold for databases that were closed by an administrator, or until a rotation had ended sessions', async () => {
    const { capsule, url } = await capsuleWithApp('kept');
    await limits('kept', { database_bytes: 64 * MI });
    await query(url, FILL(120));
    await login(url, '55000');
    const isShut = { role: 5, database: 5, open: false };
    const closeAndOpen = async () => {
      await command('close', 'kept');
      // What is closed is stored all the same, and stays closed whatever the quota admits.
      await sizes();
      expect((await roleLimits(url))?.open).toBe(false);
      await command('open', 'kept');
    };
    await closeAndOpen();
    expect(await roleLimits(url)).toEqual(isShut);
    await command('rotate', 'kept', 'ledger', '--end-sessions');
    const rotated = await capsule.create('kept', 'ledger');
    expect(rotated.status).toBe(200);
    expect(await roleLimits(url)).toEqual(isShut);
    expect(await sqlstate(rotated.json.database_url)).toBe('55000');

    await limits('kept', { database_bytes: 110 * MI });
    await closeAndOpen();
    expect(await roleLimits(url)).toEqual({ role: 5, database: 1, open: true });
    // As a rotation leaves it whose broker died before all sessions had ended.
    await fixture.registry("UPDATE broker.database SET evicting = true WHERE capsule_id = 'kept'");
    await fixture.sql(`ALTER DATABASE ${new URL(url).username} ALLOW_CONNECTIONS false`);
    await sizes();
    expect((await roleLimits(url))?.open).toBe(false);
    expect((await capsule.create('kept', 'ledger')).status).toBe(200);
    expect(await roleLimits(url)).toEqual({ role: 5, database: 1, open: true });
    await limits('kept', { database_bytes: 400 * MI });
    await closeAndOpen();
    expect(await roleLimits(url)).toEqual({ role: 5, database: 5, open: true });
    expect(await sqlstate(rotated.json.database_url)).toBe('ok');
  });

  it('end sessions in a database that was shut, which a broker that died has left there', async () => {
    const { url } = await capsuleWithApp('stays');
    const name = new URL(url).username;
    /** A session that came in before the database was shut. */
    const stay = async () => {
      await fixture.sql(`ALTER ROLE ${name} LOGIN; ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
      const client = await connect(url);
      await fixture.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      const ended = new Promise<boolean>((resolve) => client.once('end', () => resolve(true)));
      await settled(() => Promise.race([ended, Promise.resolve(false)]));
    };
    await limits('stays', { database_bytes: 64 * MI });
    await query(url, FILL(120));
    await login(url, '55000');
    await stay();
    await limits('stays', { database_bytes: 400 * MI });
    await login(url, 'ok');
    await command('close', 'stays');
    await stay();
  });

  it('count what a tenant writes into the shared catalogues of the server, which belong to no database', async () => {
    const { url } = await capsuleWithApp('shared');
    const { url: neighbour } = await capsuleWithApp('calm');
    const { used_bytes: before } = (await limits('shared')).json;
    const limit = before + 8 * MI;
    await limits('shared', { database_bytes: limit });
    await limits('calm', { database_bytes: limit });
    await sizes();
    const writer = await connect(url);
    const gone = new Promise<void>((resolve) => writer.once('end', () => resolve()));
    // Long settings, rolled back or not, stay on the disk until somebody cleans up.
    await writer.query(`BEGIN; DO $$ DECLARE long text; BEGIN
      SELECT string_agg(encode(sha256(i::text::bytea), 'hex'), ',') INTO long FROM generate_series(1, 800000) i;
      EXECUTE format('ALTER ROLE CURRENT_USER SET search_path = %L', long); END $$`);
    expect((await limits('shared', { database_bytes: limit })).json.standing).toBe('ok');
    await sizes();
    await gone;
    expect((await limits('shared', { database_bytes: limit })).json).toMatchObject({ standing: 'closed' });
    expect(await sqlstate(url)).toBe('55000');
    expect(await sqlstate(neighbour)).toBe('ok');
    await sizes();
    expect((await limits('shared', { database_bytes: 200 * MI })).json.used_bytes).toBeGreaterThan(
      before + 30 * MI,
    );
    await login(url, 'ok');
  });

  it('limit a tenant that writes as fast as it can, whatever it does', async () => {
    const { capsule, url } = await capsuleWithApp('fast');
    const limit = 64 * MI;
    await limits('fast', { database_bytes: limit });
    const eager = await fixture.replica({ environment: { SIZE_INTERVAL_MS: '50' } });
    let over = false;
    const write = async () => {
      while (!over) await query(url, FILL(4)).catch(() => undefined);
    };
    const writers = [write(), write(), write()];
    const used = async () => (await limits('fast', { database_bytes: limit })).json;
    const isClosed = async () => {
      // The time for which a tenant is closed need not be waited for here.
      await fixture.registry("UPDATE broker.capsule_limits SET until_ms = 0 WHERE capsule_id = 'fast'");
      return (await used()).standing === 'closed';
    };
    await eventually(isClosed, { what: 'the end of it' }).finally(() => {
      over = true;
    });
    await Promise.all(writers);
    // The answer predicts what the next check will do.
    await login(url, '55000');
    await eager.stop();
    const bytes = async () =>
      (
        await fixture.sql<{ bytes: number }>('SELECT pg_database_size($1)::float8 AS bytes', [
          new URL(url).username,
        ])
      )[0]?.bytes;
    const stopped = await bytes();
    expect(stopped).toBeGreaterThan(limit * 1.25);
    expect(await sqlstate(url)).toBe('55000');
    // Except for files of autovacuum.
    expect(await bytes()).toBeLessThan((stopped ?? 0) + MI);
    expect((await capsule.drop('fast', 'ledger')).status).toBe(200);
    await sizes();
    expect((await used()).standing).toBe('ok');
  });
});
