import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';
import { createGlances } from './glance.ts';

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

it('sessions that were just ended for their locks make no other check due, and others do', async () => {
  // The watch of this broker ends nobody, since the bound of the test's own checks is lower.
  const fixture = await openFixture();
  onTestFinished(() => fixture.close());
  const { database_url } = (await (await fixture.broker.capsule('greedy')).create('greedy', 'app')).json;
  const watch = await connect(fixture.server.brokerUrl);
  const ended: string[] = [];
  const glances = createGlances({ bound: 1_000, onEnd: ({ reason }) => void ended.push(reason) });
  await glances.begin(watch);
  const take = async (locks: number) => {
    const client = await connect(database_url);
    await client.query(`SELECT count(pg_advisory_lock(${locks}, i)) FROM generate_series(1, ${locks}) AS i`);
    return client;
  };
  await take(3_000);
  expect(await glances.isLookDue(watch)).toBe(false);
  expect(ended).toEqual(['locks']);
  const within = await take(900);
  expect(await glances.isLookDue(watch)).toBe(true);
  await within.query('SELECT 1');
  await within.end();
  await watch.end();
});

it('a prepared transaction with more locks than a session may have ends the sessions of nobody', async () => {
  const fixture = await openFixture(
    { settings: { max_prepared_transactions: '5' } },
    { environment: { ROLE_LOCKS: '100', WATCH_INTERVAL_MS: '1' } },
  );
  onTestFinished(() => fixture.close());
  const urlOf = async (name: string): Promise<string> =>
    (await (await fixture.broker.capsule(name)).create(name, 'app')).json.database_url;
  const looks = async () => [...(await fixture.broker.metric('space_db_watch_looks_total')).values()][0] ?? 0;
  const [greedy, calm] = [await urlOf('greedy'), await connect(await urlOf('calm'))];
  const prepare = `BEGIN; SELECT pg_advisory_xact_lock(i) FROM generate_series(1, 200) AS i; PREPARE TRANSACTION 'held'`;
  // A look in the middle of the statements ends their session.
  await eventually(async () => (await sqlstate(greedy, prepare)) === 'ok', { what: 'the transaction' });
  const from = await looks();
  await eventually(async () => (await looks()) > from + 5, { what: 'some looks of the watch' });
  await calm.query('SELECT 1');
  await calm.end();
});
