import type pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture } from '../testing/postgres.ts';

/** As the embedded server has it, 512 MiB: a smaller queue would be full before anybody is seen filling it. */
const PAGES = 65_536;

let fixture: Fixture;
const sessions: pg.Client[] = [];
const session = async (url: string) => {
  const client = await connect(url);
  sessions.push(client);
  return client;
};
const urlOf = async (name: string) => {
  const capsule = await fixture.broker.capsule(name);
  return (await capsule.create(name, 'app')).json.database_url;
};
const reasons = () =>
  fixture.broker.log.flatMap((line) => {
    const { msg, reason } = JSON.parse(line) as { msg?: string; reason?: string };
    return msg === 'session ended' && reason !== undefined ? [reason] : [];
  });

beforeAll(async () => {
  const settings = { max_notify_queue_pages: String(PAGES) };
  fixture = await openFixture({ major: '17', settings }, { environment: { WATCH_INTERVAL_MS: '50' } });
});
afterEach(async () => {
  for (const client of sessions.splice(0)) await client.end().catch(() => undefined);
});
afterAll(() => fixture.close());

it('a tenant that fills the queue of notifications has its own sessions ended, and no other’s', async () => {
  const [hostile, calm] = [await urlOf('hostile'), await urlOf('calm')];
  const long = await session(calm);
  await long.query('BEGIN; SELECT 1');
  const reader = await session(hostile);
  let reads = true;
  const gone = new Promise<void>((resolve) => reader.once('end', resolve)).then(() => {
    reads = false;
  });
  await reader.query('LISTEN news');
  await eventually(
    async () => {
      const { rows } = await long.query<{ age: number }>(
        'SELECT extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age FROM pg_stat_activity WHERE pid = pg_backend_pid()',
      );
      return (rows[0]?.age ?? 0) > 6;
    },
    { what: 'a transaction of six seconds' },
  );
  // Its reader is always too young to be ended for its age.
  await reader.query('BEGIN');
  const writer = await session(hostile);
  const write = async () => {
    while (reads)
      await writer.query(`SELECT pg_notify('news', i || repeat('x', 7900)) FROM generate_series(1, 1000) i`);
  };
  // The writer is ended as well, unless it is between two statements while its reader is.
  await write().catch(() => undefined);
  await gone;
  expect(new Set(reasons())).toEqual(new Set(['notifications']));
  await long.query('SELECT 1');
});
