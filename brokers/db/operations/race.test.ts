import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Fixture, openFixture } from '../testing/postgres.ts';

/**
 * `ON CONFLICT` names one index. An insert that runs beside another of the same row may meet it at the other unique
 * index first, and fails there. The sequence is not rolled back, so every fault comes once.
 */
let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
  // With spares in the pool no transaction is repeated for lack of one.
  await fixture.broker.round('spares');
  await fixture.registry(`
    CREATE FUNCTION broker.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('broker.fault_' || TG_TABLE_NAME) % 2 = 1 THEN RAISE unique_violation; END IF;
        RETURN NEW;
      END $$`);
  for (const table of ['capsule', 'database']) {
    await fixture.registry(`
      CREATE SEQUENCE broker.fault_${table};
      GRANT USAGE ON SEQUENCE broker.fault_${table} TO PUBLIC;
      CREATE TRIGGER fail_once BEFORE INSERT ON broker.${table} FOR EACH ROW EXECUTE FUNCTION broker.fail_once()`);
  }
});
afterAll(() => fixture.close());

it('an insert that conflicts with a concurrent one at its second unique index is retried', async () => {
  const principal = newToken('dbp').reveal();
  const { provisioner } = fixture.broker;
  expect((await provisioner.provision('race', principal)).json).toMatchObject({ created: true });
  expect((await fixture.broker.as(principal).create('race', 'app')).json).toMatchObject({ created: true });
  const [tried] = await fixture.registry(
    'SELECT c.last_value::int AS capsule, d.last_value::int AS database FROM broker.fault_capsule c, broker.fault_database d',
  );
  // Each insert twice, and the Capsule's once more so: its transaction was begun anew for its database's sake.
  expect(tried).toEqual({ capsule: 4, database: 4 });
});

it('a principal of another Capsule is still a conflict', async () => {
  const principal = newToken('dbp').reveal();
  expect((await fixture.broker.provisioner.provision('first', principal)).status).toBe(200);
  expect((await fixture.broker.provisioner.provision('second', principal)).status).toBe(409);
});
