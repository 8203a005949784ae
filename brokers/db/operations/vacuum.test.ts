import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { addSpare } from '../spares/pool.ts';
import { census } from '../testing/census.ts';
import { type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';

/**
 * Nobody may connect to a spare, and still a worker of autovacuum comes into it once its oldest transaction is far
 * enough away. Here that is soon, and the worker dawdles.
 */
const MAJORS: readonly PostgresMajor[] = ['15', '16', '17', '18'];
/** The smallest that the server takes. */
const FREEZE_MAX_AGE = 100_000;
const ENDED = 'terminating autovacuum process due to administrator command';

describe.each(MAJORS)('autovacuum on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openFixture(
      {
        major,
        settings: {
          autovacuum_naptime: '1s',
          autovacuum_freeze_max_age: String(FREEZE_MAX_AGE),
          // As each database says.
          autovacuum_vacuum_cost_delay: '-1',
        },
      },
      { environment: { SPARE_DATABASES: '0' } },
    );
  });
  afterAll(() => fixture.close());

  const ended = () => readFileSync(fixture.server.logPath, 'utf8').split(ENDED).length - 1;

  /** Makes every worker stay in the database, and waits for one. */
  async function vacuumed(database: string): Promise<void> {
    await fixture.sql(`ALTER DATABASE ${database} SET vacuum_cost_delay = 100`);
    await fixture.sql(`ALTER DATABASE ${database} SET vacuum_cost_limit = 1`);
    await eventually(
      async () => {
        const rows = await fixture.sql(
          "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname = $1",
          [database],
        );
        return rows.length > 0;
      },
      { what: 'a worker in the database' },
    );
  }

  it('is ended by a create that takes the spare it works on, and by the drop', async () => {
    const capsule = await fixture.broker.capsule('old');
    const { connections, spares } = fixture.broker.context;
    await addSpare(connections, spares);
    // Of the server: for a moment, the registry may list one that was just given away.
    const [spare, ...others] = await fixture.sql<{ name: string }>(
      "SELECT datname AS name FROM pg_database WHERE datname ~ '_spare_'",
    );
    expect(others).toEqual([]);
    await fixture.sql(
      `DO $$ BEGIN FOR i IN 0..${FREEZE_MAX_AGE} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$`,
    );
    await vacuumed(spare?.name ?? '');
    const before = ended();
    const created = await capsule.create('old', 'app');
    expect(created).toMatchObject({ status: 200, json: { created: true } });
    const url: string = created.json.database_url;
    expect(await sqlstate(url)).toBe('ok');
    // It was this spare, and the worker was in it.
    expect(await fixture.sql('SELECT 1 FROM pg_database WHERE datname = $1', [spare?.name])).toEqual([]);
    await eventually(() => ended() > before, { what: 'the server to log the end of the worker' });

    const name = new URL(url).pathname.slice(1);
    await vacuumed(name);
    const between = ended();
    expect((await capsule.drop('old', 'app')).json).toMatchObject({ dropped: name });
    await eventually(() => ended() > between, { what: 'the server to log the end of the second worker' });
    expect((await capsule.dropAll('old')).status).toBe(200);
    expect(await census(fixture.server.superuserUrl)).toEqual([]);
  });
});
