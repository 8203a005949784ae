import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { connect, type Fixture, openFixture, sqlstate, UNINTERRUPTIBLE } from '../testing/postgres.ts';

describe.each<PostgresMajor>(['15', '18'])('on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openFixture({ major });
  });
  afterAll(() => fixture.close());

  it('a computation that cannot be ended blocks drops: its database is closed, and others continue', async () => {
    const hostile = await fixture.broker.capsule('hostile');
    const url: string = (await hostile.create('hostile', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    const victim = await fixture.broker.capsule('victim');
    await victim.create('victim', 'app');
    const calm = await fixture.broker.capsule('calm');
    const busy = await connect((await calm.create('calm', 'app')).json.database_url);
    // In the list of columns a series is not kept: as a table it fills what a session may have of the disk.
    const computed = busy
      .query('SELECT count(*) FROM (SELECT generate_series(1, 1000000000)) AS streamed')
      .then(
        () => 'ended',
        () => 'failed',
      );
    const idle = await connect(url);
    const gone = new Promise<void>((resolve) => idle.once('end', () => resolve()));
    const client = await connect(url);
    client.query(UNINTERRUPTIBLE).catch(() => undefined);
    const own = async () =>
      (
        await fixture.sql<{ pid: number }>(
          "SELECT pid FROM pg_stat_activity WHERE usename = $1 AND state = 'active' AND query_start < clock_timestamp() - interval '2 seconds'",
          [name],
        )
      )[0]?.pid;
    await eventually(async () => (await own()) !== undefined, { what: 'the computation' });
    const pid = await own();
    if (pid === undefined) throw new Error('it has ended');
    try {
      const dropped = victim.drop('victim', 'app');
      const metric = async () => (await fixture.broker.metric('space_db_stuck_sessions')).get('');
      await eventually(
        async () => {
          await fixture.broker.round('stuck sessions');
          return (await metric()) === 1;
        },
        { what: 'the session to be found' },
      );
      expect(await sqlstate(url)).toMatch(/^(28000|55000)$/);
      await gone;
      expect((await hostile.create('hostile', 'app')).status).toBe(409);
      // Neither drift nor another check opens it, or reports it twice.
      await fixture.broker.round('drift');
      await fixture.broker.round('stuck sessions');
      expect(await sqlstate(url)).toMatch(/^(28000|55000)$/);
      const told = fixture.broker.log.filter((line) => line.includes('its session cannot be ended'));
      expect(told).toHaveLength(1);
      expect(await Promise.race([computed, Promise.resolve('computes')])).toBe('computes');

      // What the guard of the embedded server does, or its owner.
      process.kill(pid, 'SIGKILL');
      await dropped;
      await eventually(async () => (await sqlstate(fixture.server.superuserUrl)) === 'ok', {
        what: 'the server',
      });
      await eventually(async () => (await victim.drop('victim', 'app')).status === 200, { what: 'the drop' });
      await eventually(
        async () => {
          await fixture.broker.round('stuck sessions').catch(() => undefined);
          return (await metric()) === 0;
        },
        { what: 'the session to be forgotten' },
      );
    } catch (error) {
      // Else the server would not stop.
      process.kill(pid, 'SIGKILL');
      throw error;
    }
  });

  it('a session that holds too many locks while it ends has its database closed, so that it happens once', async () => {
    const greedy = await fixture.broker.capsule('greedy');
    const url: string = (await greedy.create('greedy', 'app')).json.database_url;
    const client = await connect(url);
    const [row] = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
    const pid = row!.pid;
    await client.query('SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 9000) i');
    // Like a session that drops its temporary tables: it does not end for minutes.
    process.kill(pid, 'SIGSTOP');
    try {
      const second = await connect(url);
      await second.query('SELECT count(pg_advisory_lock(i)) FROM generate_series(9001, 11000) i');
      await eventually(
        async () => {
          await fixture.broker.round('stuck sessions');
          return (await greedy.create('greedy', 'app')).status === 409;
        },
        { what: 'its database to be closed' },
      );
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    expect(await sqlstate(url)).toMatch(/^(28000|55000)$/);
  });
});
