import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';
import { spareNames } from './names.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const named = async (pattern: string) =>
  (
    await fixture.sql<{ name: string }>(
      'SELECT datname::text AS name FROM pg_database WHERE datname ~ $1 ORDER BY 1',
      [pattern],
    )
  ).map(({ name }) => name);

it('a lost template is created again in the next round, and new databases with it', async () => {
  const { template } = fixture.broker.context.spares;
  await fixture.broker.round('spares');
  // A round of the broker's own may be at one of them, or make another.
  const lost = async () => {
    for (const name of await named('_(spare|template)_'))
      await fixture.sql(`DROP DATABASE IF EXISTS ${name}`);
    return (await named('_(spare|template)_')).length === 0;
  };
  await eventually(lost, { what: 'all of them to be lost' });
  await fixture.broker.round('spares');
  expect(await named('_template_')).toEqual([template]);
  const capsule = await fixture.broker.capsule('again');
  expect(await sqlstate((await capsule.create('again', 'app')).json.database_url)).toBe('ok');
});

it('spares of a lower version are removed, and those of a newer replica stay', async () => {
  const { template, usable } = fixture.broker.context.spares;
  const installation = template.slice(4, 12);
  const [older, newer] = [spareNames(installation, 0), spareNames(installation, 10)];
  const kept = [newer.template, newer.next()];
  for (const name of [older.template, older.next(), ...kept])
    await fixture.sql(
      `CREATE DATABASE ${name} OWNER space_broker TEMPLATE template0 ALLOW_CONNECTIONS false`,
    );
  await fixture.broker.round('spares');
  expect((await named('_(spare|template)_')).filter((name) => !name.startsWith(usable)).sort()).toEqual(
    [template, ...kept].sort(),
  );
});

it('a spare that somebody opened is no longer used, and another replaces it', async () => {
  await fixture.broker.round('spares');
  const { usable } = fixture.broker.context.spares;
  const [opened = '', ...others] = await named(usable);
  await fixture.sql(`ALTER DATABASE ${opened} ALLOW_CONNECTIONS true`);
  await fixture.broker.round('spares');
  const replaced = async () => {
    const after = await named(usable);
    expect(after).not.toContain(opened);
    expect(after).toHaveLength(others.length + 1);
    const counted = await fixture.registry<{ name: string }>('SELECT name FROM broker.spare ORDER BY name');
    expect(counted.map(({ name }) => name)).toEqual(after);
    return true;
  };
  // A round of the broker's own may be half done.
  await eventually(replaced, { what: 'another spare in its place' });
});

it('a spare with a grant is not used, and another replaces it', async () => {
  await fixture.broker.round('spares');
  const { usable } = fixture.broker.context.spares;
  const granted = await named(usable);
  await fixture.sql('CREATE ROLE stranger LOGIN');
  for (const name of granted) await fixture.sql(`GRANT CONNECT ON DATABASE ${name} TO stranger`);
  const capsule = await fixture.broker.capsule('sealed');
  const { pathname } = new URL((await capsule.create('sealed', 'app')).json.database_url);
  expect(
    await fixture.sql("SELECT has_database_privilege('stranger', $1, 'CONNECT') AS enters", [
      pathname.slice(1),
    ]),
  ).toEqual([{ enters: false }]);
  await fixture.broker.round('spares');
  for (const name of granted) expect(await named(usable)).not.toContain(name);
});

it('spares that are locked permanently are skipped, and another one is cloned', async () => {
  await fixture.broker.round('spares');
  const holder = await connect(fixture.server.superuserUrl);
  await holder.query('BEGIN');
  for (const name of await named(fixture.broker.context.spares.usable))
    await holder.query(`ALTER ROLE CURRENT_USER IN DATABASE ${name} SET work_mem = '1MB'`);
  const capsule = await fixture.broker.capsule('passing');
  expect(await sqlstate((await capsule.create('passing', 'app')).json.database_url)).toBe('ok');
  await holder.query('SELECT 1');
  await holder.end();
});
