import { afterAll, beforeAll, expect, it } from 'vitest';
import { COMMANDS } from '../commands.ts';
import { type Fixture, openFixture, query, sqlstate } from '../testing/postgres.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({ durable: true, settings: { synchronous_commit: 'on' } });
});
afterAll(() => fixture.close());

/** While a standby is named that does not exist, a COMMIT that must be durable is not answered. */
async function nameStandby(name: string): Promise<void> {
  await query(fixture.server.superuserUrl, `ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
  await query(fixture.server.superuserUrl, 'SELECT pg_reload_conf()');
}

it('a create that finds its database is answered before the commit is durable, and one that changes the password is not', async () => {
  const capsule = await fixture.broker.capsule('home');
  const url: string = (await capsule.create('home', 'same')).json.database_url;
  await capsule.create('home', 'changed');
  await COMMANDS['rotate']!.run(fixture.broker.servers, 'a'.repeat(32), ['home', 'changed'], async () => '');

  await nameStandby('nobody');
  let isAnswered = false;
  const changed = capsule.create('home', 'changed').finally(() => {
    isAnswered = true;
  });
  for (let i = 0; i < 20; i += 1)
    expect((await capsule.create('home', 'same')).json).toMatchObject({ created: false, database_url: url });
  expect(isAnswered).toBe(false);

  await nameStandby('');
  expect(await sqlstate((await changed).json.database_url)).toBe('ok');
  expect(await sqlstate(url)).toBe('ok');
});

it('a create that reverts the tenant’s change of its password survives a crash once later commits are durable', async () => {
  const capsule = await fixture.broker.capsule('reverting');
  const url: string = (await capsule.create('reverting', 'app')).json.database_url;
  const { username } = new URL(url);
  await query(url, `ALTER ROLE ${username} PASSWORD 'of the tenant'`);
  expect(await sqlstate(url)).toBe('28P01');
  await capsule.create('reverting', 'app');
  await capsule.create('reverting', 'another');
  await fixture.server.kill();
  await fixture.server.start();
  expect(await sqlstate(url)).toBe('ok');
});
