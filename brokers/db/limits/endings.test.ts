import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture } from '../testing/postgres.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({ asInImage: true });
});
afterAll(() => fixture.close());

it('a tenant whose sessions are ended all the time has a few lines of the log a second, and all are counted', async () => {
  const capsule = await fixture.broker.capsule('noisy');
  const url: string = (await capsule.create('noisy', 'app')).json.database_url;
  const told = () =>
    fixture.broker.log.flatMap((line) => {
      const { msg, event, database, left_out } = JSON.parse(line);
      if (database !== new URL(url).username) return [];
      return msg === 'session ended' ? [1] : event === 'session ended' ? [left_out as number] : [];
    });
  const counted = async () =>
    (await fixture.broker.metric('space_db_sessions_ended_total')).get('reason="catalogue_locks"') ?? 0;
  const begun = performance.now();
  let over = false;
  // A holder of the lock, so that each of the others waits, and is ended.
  const holder = await connect(url);
  await holder.query('SET idle_in_transaction_session_timeout = 0; BEGIN; TABLE pg_database');
  const attackers = Array.from({ length: 4 }, async () => {
    while (!over) {
      const client = await connect(url).catch(() => undefined);
      await client?.query('CREATE RULE r AS ON INSERT TO pg_database DO NOTHING').catch(() => undefined);
      await client?.end().catch(() => undefined);
    }
  });
  const most = () => 20 + Math.ceil((performance.now() - begun) / 1_000);
  try {
    // So many that most of them have no line, on a machine of any speed.
    await eventually(async () => (await counted()) > 3 * most(), { what: 'the ends of many sessions' });
  } finally {
    over = true;
    await Promise.all(attackers);
    await holder.end();
  }
  expect(told().length).toBeLessThanOrEqual(2 * most());
  const all = () => told().reduce((sum, lines) => sum + lines, 0);
  await eventually(async () => all() === (await counted()), { what: 'the number of those without a line' });
});
