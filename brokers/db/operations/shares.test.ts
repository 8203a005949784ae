import type pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { Client, Reply } from '../testing/broker.ts';
import { connect, type Fixture, intoDatabase, openFixture } from '../testing/postgres.ts';

/** More than the broker has connections of either kind. */
const APPS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];

let fixture: Fixture;
let holder: pg.Client;
let holding: number;
beforeAll(async () => {
  fixture = await openFixture();
  holder = await connect(intoDatabase(fixture.server.superuserUrl, 'space_registry'));
  await holder.query('SET idle_in_transaction_session_timeout = 0');
  const { rows } = await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  holding = rows[0]!.pid;
});
afterEach(() => holder.query('ROLLBACK'));
afterAll(async () => {
  await holder.end();
  await fixture.close();
});

async function capsuleWith(
  id: string,
  apps: readonly string[],
): Promise<{ caller: Client; names: string[] }> {
  const caller = await fixture.broker.capsule(id);
  const made = [];
  for (const app of apps) made.push(await caller.create(id, app));
  return { caller, names: made.map(({ json }) => new URL(json.database_url).pathname.slice(1)) };
}

/** Statements of the broker that wait for the lock that the test holds. */
const waiting = async () => {
  const [row] = await fixture.sql<{ count: number }>(
    `SELECT count(*)::int AS count FROM pg_stat_activity
     WHERE usename = 'space_broker' AND $1 = ANY (pg_blocking_pids(pid))`,
    [holding],
  );
  return row!.count;
};

/** Requests of which none is answered as long as the test holds its lock. */
function pending(requests: readonly Promise<Reply>[]) {
  let answered = 0;
  for (const request of requests) request.then(() => (answered += 1));
  return () => requests.length - answered;
}

describe('a Capsule whose own requests all wait', () => {
  it('for locks of its databases leaves connections to the drops of another', async () => {
    const { caller, names } = await capsuleWith('held-drops', APPS);
    const other = await capsuleWith('free-drops', ['app']);
    await holder.query('BEGIN');
    // A drop waits for this lock, and nothing that comes before it does.
    for (const name of names) await holder.query(`COMMENT ON DATABASE ${name} IS 'held'`);
    const drops = APPS.map((app) => caller.drop('held-drops', app));
    const left = pending(drops);
    await eventually(async () => (await waiting()) >= 2, { what: 'drops to wait' });
    expect(await other.caller.drop('free-drops', 'app')).toMatchObject({ status: 200 });
    expect(left()).toBe(APPS.length);
    await holder.query('ROLLBACK');
    expect((await Promise.all(drops)).map(({ status }) => status)).toEqual(APPS.map(() => 200));
  });

  it('for its own row leaves connections to the transactions of another', async () => {
    const { caller } = await capsuleWith('held-rows', []);
    const other = await capsuleWith('free-rows', []);
    await holder.query('BEGIN');
    await holder.query("SELECT FROM broker.capsule WHERE capsule_id = 'held-rows' FOR UPDATE");
    const creates = APPS.map((app) => caller.create('held-rows', app));
    const left = pending(creates);
    await eventually(async () => (await waiting()) >= 3, { what: 'creates to wait' });
    expect(await other.caller.create('free-rows', 'app')).toMatchObject({ status: 200 });
    expect(left()).toBe(APPS.length);
    await holder.query('ROLLBACK');
    expect((await Promise.all(creates)).map(({ status }) => status)).toEqual(APPS.map(() => 200));
  });
});

describe('two Capsules whose requests all wait', () => {
  it('for locks of their databases leave connections to the drops of a third', async () => {
    const first = await capsuleWith('held-drops-first', ['one', 'two', 'three']);
    const second = await capsuleWith('held-drops-second', ['one', 'two', 'three']);
    const other = await capsuleWith('free-drops-third', ['app']);
    await holder.query('BEGIN');
    for (const name of [...first.names, ...second.names])
      await holder.query(`COMMENT ON DATABASE ${name} IS 'held'`);
    const drops = ['one', 'two', 'three'].flatMap((app) => [
      first.caller.drop('held-drops-first', app),
      second.caller.drop('held-drops-second', app),
    ]);
    const left = pending(drops);
    await eventually(async () => (await waiting()) >= 3, { what: 'drops of both to wait' });
    expect(await other.caller.drop('free-drops-third', 'app')).toMatchObject({ status: 200 });
    expect(left()).toBe(drops.length);
    await holder.query('ROLLBACK');
    expect((await Promise.all(drops)).map(({ status }) => status)).toEqual(drops.map(() => 200));
  });

  it('for their own rows leave connections to the transactions of a third', async () => {
    const first = await capsuleWith('held-first', []);
    const second = await capsuleWith('held-second', []);
    const other = await capsuleWith('free-third', []);
    await holder.query('BEGIN');
    await holder.query(
      "SELECT FROM broker.capsule WHERE capsule_id IN ('held-first', 'held-second') FOR UPDATE",
    );
    const creates = APPS.flatMap((app) => [
      first.caller.create('held-first', app),
      second.caller.create('held-second', app),
    ]);
    const left = pending(creates);
    await eventually(async () => (await waiting()) >= 4, { what: 'creates of both to wait' });
    expect(await other.caller.create('free-third', 'app')).toMatchObject({ status: 200 });
    expect(left()).toBe(creates.length);
    await holder.query('ROLLBACK');
    expect((await Promise.all(creates)).map(({ status }) => status)).toEqual(creates.map(() => 200));
  });
});
