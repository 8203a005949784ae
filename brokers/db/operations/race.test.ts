import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stage, setStage } from '../testing/postgres.ts';

/**
 * `ON CONFLICT` names one index. An insert that runs beside another of the same row may meet it at the other unique
 * index first, and fails there. The sequence is not rolled back, so every fault comes once.
 */
let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
  // With spares in the pool nothing is begun anew for their sake.
  await stage.broker.round('spares');
  await stage.registry(`
    CREATE FUNCTION broker.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF nextval('broker.fault_' || TG_TABLE_NAME) % 2 = 1 THEN RAISE unique_violation; END IF;
        RETURN NEW;
      END $$`);
  for (const table of ['capsule', 'database']) {
    await stage.registry(`
      CREATE SEQUENCE broker.fault_${table};
      GRANT USAGE ON SEQUENCE broker.fault_${table} TO PUBLIC;
      CREATE TRIGGER fail_once BEFORE INSERT ON broker.${table} FOR EACH ROW EXECUTE FUNCTION broker.fail_once()`);
  }
});
afterAll(() => stage.close());

it('an insert that met a concurrent one at its second unique index is begun anew', async () => {
  const principal = newToken('dbp').reveal();
  const { provisioner } = stage.broker;
  expect((await provisioner.provision('race', principal)).json).toMatchObject({ created: true });
  expect((await stage.broker.as(principal).create('race', 'app')).json).toMatchObject({ created: true });
  const [tried] = await stage.registry(
    'SELECT c.last_value::int AS capsule, d.last_value::int AS database FROM broker.fault_capsule c, broker.fault_database d',
  );
  // Each insert twice, and the Capsule's once more so: its transaction was begun anew for its database's sake.
  expect(tried).toEqual({ capsule: 4, database: 4 });
});

it('a principal of another Capsule is a conflict all the same', async () => {
  const principal = newToken('dbp').reveal();
  expect((await stage.broker.provisioner.provision('first', principal)).status).toBe(200);
  expect((await stage.broker.provisioner.provision('second', principal)).status).toBe(409);
});
