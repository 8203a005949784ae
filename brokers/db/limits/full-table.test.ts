import { expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, openFixture, sqlstate } from '../testing/postgres.ts';

it('the watch ends the session that has filled the lock table, although nobody can log in any more', async () => {
  // So small a table is full long before the watch looks again, on a busy machine, too.
  const environment = { WATCH_INTERVAL_MS: '30000', ROLE_LOCKS: '100000' };
  const fixture = await openFixture(
    { major: '17', settings: { max_locks_per_transaction: '10' } },
    { environment },
  );
  try {
    const capsule = await fixture.broker.capsule('attacker');
    const { database_url: url } = (await capsule.create('attacker', 'ledger')).json;
    const looks = async () => (await fixture.broker.metric('space_db_watch_looks_total')).get('') ?? 0;
    await eventually(async () => (await looks()) > 0, { what: 'the first look' });
    const client = await connect(url);
    let isGone = false;
    client.once('end', () => {
      isGone = true;
    });
    const attack = `DO $$ DECLARE i bigint := 0; BEGIN LOOP
      i := i + 1; BEGIN PERFORM pg_advisory_lock(i); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`;
    client.query(attack).catch(() => undefined);
    await eventually(async () => (await sqlstate(fixture.server.superuserUrl)) === '53200', {
      what: 'the table to be full',
    });
    await eventually(() => isGone, { what: 'the session to be ended' });
    expect(await sqlstate(fixture.server.superuserUrl)).toBe('ok');
  } finally {
    await fixture.close();
  }
});
