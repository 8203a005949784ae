import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, type Fixture, openFixture, query } from '../testing/postgres.ts';
import { stillCharged } from './shared.ts';

const MI = 2 ** 20;
/** Never looked at but by hand, so that a test sees each step. */
const SELDOM = { environment: { SIZE_INTERVAL_MS: '1000000' } };
/** Some 7 MiB in a setting, in a transaction that may be rolled back. */
const LONG_SETTING = `DO $$ DECLARE long text; BEGIN
  SELECT string_agg(encode(sha256(i::text::bytea), 'hex'), ',') INTO long FROM generate_series(1, 200000) i;
  EXECUTE format('ALTER ROLE CURRENT_USER SET search_path = %L', long); END $$`;

describe('data in shared catalogues', () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openFixture({ major: '17' }, SELDOM);
    // It would let one test write where another has written, and nothing would grow.
    await fixture.sql('ALTER SYSTEM SET autovacuum = off');
    await fixture.sql('SELECT pg_reload_conf()');
  });
  afterAll(() => fixture?.close());

  const sizes = () => fixture.broker.round('sizes');
  const held = async (name: string) => {
    const limits = { capsule_id: name, database_bytes: 2048 * MI };
    const { json } = await fixture.broker.provisioner.post('/v1/capsules/limits', limits);
    return json.used_bytes as number;
  };
  /** In the catalogues of the whole server alone. */
  const shared = async (name: string) => {
    const [row] = await fixture.registry<{ bytes: number }>(
      'SELECT shared_bytes::float8 AS bytes FROM broker.capsule_limits WHERE capsule_id = $1',
      [name],
    );
    return row?.bytes ?? 0;
  };
  const urlOf = async (name: string): Promise<string> => {
    const capsule = await fixture.broker.capsule(name);
    return (await capsule.create(name, 'app')).json.database_url;
  };

  it('is charged to its owner, and not to a tenant with a transaction in the meantime', async () => {
    const [quiet, many] = [await urlOf('quiet'), await urlOf('many')];
    await sizes();
    const migration = await connect(quiet);
    await migration.query("BEGIN; ALTER ROLE CURRENT_USER SET search_path = 'public'");
    await query(many, 'SELECT count(lo_create(0)) FROM generate_series(1, 100000)');
    await sizes();
    expect(await shared('quiet')).toBeLessThan(MI);
    expect(await shared('many')).toBeGreaterThanOrEqual(10_000_000);
    await migration.query('COMMIT');
    await migration.end();
  });

  it('is not charged to a tenant that has only held a lock since the last check', async () => {
    const [calm, loud] = [await urlOf('calm'), await urlOf('loud')];
    const migration = await connect(calm);
    await migration.query("BEGIN; ALTER ROLE CURRENT_USER SET search_path = 'public'");
    await sizes();
    const writer = await connect(loud);
    await writer.query(`BEGIN; ${LONG_SETTING}`);
    await sizes();
    expect(await shared('calm')).toBeLessThan(MI);
    expect(await shared('loud')).toBeGreaterThan(4 * MI);
    await migration.query('COMMIT');
    await Promise.all([migration.end(), writer.end()]);
  });

  it('is charged once, however many replicas check', async () => {
    const url = await urlOf('once');
    const replica = await fixture.replica(SELDOM);
    await Promise.all([sizes(), replica.round('sizes')]);
    const before = await held('once');
    const writer = await connect(url);
    await writer.query(`BEGIN; ${LONG_SETTING}`);
    await sizes();
    const first = (await held('once')) - before;
    await replica.round('sizes');
    expect(first).toBeGreaterThan(4 * MI);
    expect((await held('once')) - before).toBeLessThan(first + MI);
    await writer.end();
    await replica.stop();
  });

  it('is charged for as long as it is stored', async () => {
    const url = await urlOf('stored');
    await query(url, LONG_SETTING);
    await fixture.registry(
      "UPDATE broker.capsule_limits SET written_bytes = 0, shared_bytes = 0 WHERE capsule_id = 'stored'",
    );
    await sizes();
    expect(await shared('stored')).toBeGreaterThan(4 * MI);
    await query(url, 'ALTER ROLE CURRENT_USER RESET search_path');
    await sizes();
    expect(await shared('stored')).toBeLessThan(MI);
  });
});

describe('the charge for dead rows', () => {
  it('fades, and is not increased by a clock that is set back', () => {
    expect(stillCharged(1000, 0, 0)).toBe(1000);
    expect(stillCharged(1000, 0, 600_000)).toBe(500);
    expect(stillCharged(1000, 0, 6_000_000)).toBe(0);
    expect(stillCharged(1000, 600_000, 0)).toBe(1000);
  });
});
