import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';

/** A tenth of the table, as it is where it is installed. */
const BOUND = 10_000;
const LOCKS = `SELECT count(pg_advisory_lock(i)) FROM (SELECT generate_series(1, 100000000) AS i) AS streamed`;

describe('between two checks', () => {
  let fixture: Fixture;
  let url: string;
  const ended = () => fixture.broker.log.filter((line) => line.includes('"session ended"')).length;

  beforeAll(async () => {
    // The first look is the last one here.
    const environment = { WATCH_INTERVAL_MS: '1000000', ROLE_LOCKS: String(BOUND) };
    fixture = await openFixture({}, { environment });
    url = (await (await fixture.broker.capsule('greedy')).create('greedy', 'app')).json.database_url;
  });
  afterAll(() => fixture.close());

  it('a session with more locks than it may have is ended, and so are later ones', async () => {
    for (let round = 0; round < 3; round += 1) {
      const before = ended();
      const client = await connect(url);
      const gone = new Promise<void>((resolve) => client.once('end', () => resolve()));
      // On a busy machine it finds the table full; it is ended all the same.
      await client.query(LOCKS).catch(() => undefined);
      await gone;
      await eventually(() => ended() > before, { what: 'its line of the log' });
    }
  });

  it('no other session is ended', async () => {
    const calm = await fixture.broker.capsule('calm');
    const { database_url } = (await calm.create('calm', 'app')).json;
    const client = await connect(database_url);
    await client.query(`BEGIN; SELECT count(pg_advisory_lock(i)) FROM generate_series(1, ${BOUND / 2}) AS i`);
    const greedy = await connect(url);
    const gone = new Promise<void>((resolve) => greedy.once('end', () => resolve()));
    await greedy.query(LOCKS).catch(() => undefined);
    await gone;
    await client.query('COMMIT');
    expect(await sqlstate(database_url)).toBe('ok');
    await client.end();
  });
});
