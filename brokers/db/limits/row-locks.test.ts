import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture, query } from '../testing/postgres.ts';

/** The least that a server takes; with the embedded server's it would be half an hour. */
const AT_MOST = 10_000;

let fixture: Fixture;
let url: string;
beforeAll(async () => {
  const settings = { autovacuum_multixact_freeze_max_age: String(AT_MOST), autovacuum_naptime: '1s' };
  fixture = await openFixture({ major: '17', settings }, { environment: { WATCH_INTERVAL_MS: '100' } });
  const capsule = await fixture.broker.capsule('locking');
  url = (await capsule.create('locking', 'app')).json.database_url;
  await query(url, 'CREATE TABLE t AS SELECT generate_series(1, 10000) AS i');
});
afterAll(() => fixture.close());

const segments = () => readdirSync(join(fixture.server.directory, 'data/pg_multixact/members'));
const oldest = async () => {
  const [row] = await fixture.sql<{ age: number }>(
    'SELECT max(mxid_age(datminmxid)) AS age FROM pg_database',
  );
  return row!.age;
};
const reasons = () =>
  fixture.broker.log.flatMap((line) => {
    const { msg, reason } = JSON.parse(line) as { msg?: string; reason?: string };
    return msg === 'session ended' && reason !== undefined ? [reason] : [];
  });

/** Locks each row in a transaction of its own inside, so that no two rows are held by the same. */
const LOCK_ALL = `DO $$ BEGIN FOR n IN 1..10000 LOOP
  BEGIN PERFORM FROM t WHERE i = n FOR KEY SHARE; EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`;

async function lockTogether(sessions: readonly pg.Client[]): Promise<void> {
  for (const session of sessions) await session.query('BEGIN');
  for (const session of sessions) await session.query(LOCK_ALL);
  for (const session of sessions) await session.query('ROLLBACK');
}

describe('row locks of several sessions of a tenant, whose storage no quota counts', () => {
  it('are cleaned up while it adds more, and sessions that prevent the clean-up are ended', async () => {
    await query(url, 'CREATE INDEX ON t (i)');
    const sessions = [await connect(url), await connect(url)];
    const keeper = await connect(url);
    await keeper.query(
      'SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT FROM t WHERE i = 1 FOR KEY SHARE',
    );
    let over = false;
    const locking = (async () => {
      while (!over) await lockTogether(sessions);
    })();
    await eventually(async () => (await oldest()) > 2 * AT_MOST, { what: 'more than vacuum lets come' });
    await eventually(() => reasons().includes('row_locks'), { what: 'the end of who keeps them' });
    await expect(keeper.query('SELECT 1')).rejects.toThrow();
    await eventually(() => !segments().includes('0000'), { what: 'the first to be cleared' });
    over = true;
    await locking;
    await eventually(async () => (await oldest()) <= 2 * AT_MOST, { what: 'the rest' });
    for (const session of sessions) await session.end();
  });
});
