import { afterAll, beforeAll, expect, it } from 'vitest';
import { COMMANDS } from './commands.ts';
import { census } from './testing/census.ts';
import { type Fixture, openFixture, sqlstate } from './testing/postgres.ts';

/** A registry that is restored to an older state, on a server that has continued. */
let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const command = (name: string, ...args: string[]) =>
  COMMANDS[name]!.run(fixture.broker.servers, 'a'.repeat(32), args, async () => '');
const unknown = async () =>
  String(await command('unknown'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

const save = () =>
  fixture.registry('DROP TABLE IF EXISTS saved; CREATE TABLE saved AS SELECT * FROM broker.database');
const setBack = () =>
  fixture.registry('DELETE FROM broker.database; INSERT INTO broker.database SELECT * FROM saved');
const nameOf = (url: string) => new URL(url).pathname.slice(1);

it('never reuses a name or a password, so that no old URL opens a new database', async () => {
  const capsule = await fixture.broker.capsule('reused');
  await save();
  const before: string = (await capsule.create('reused', 'app')).json.database_url;
  await capsule.drop('reused', 'app');
  await setBack();
  const after: string = (await capsule.create('reused', 'app')).json.database_url;
  expect(nameOf(after)).not.toBe(nameOf(before));
  expect(new URL(after).password).not.toBe(new URL(before).password);
  expect(await sqlstate(before)).not.toBe('ok');

  await save();
  await command('rotate', 'reused', 'app');
  const rotated: string = (await capsule.create('reused', 'app')).json.database_url;
  await setBack();
  await command('rotate', 'reused', 'app');
  const again: string = (await capsule.create('reused', 'app')).json.database_url;
  expect(again).not.toBe(rotated);
  expect(await sqlstate(rotated)).toBe('28P01');
});

it('serves a workload whose database it has forgotten with a new one, and lists the unknown one', async () => {
  const capsule = await fixture.broker.capsule('forgotten');
  await save();
  const before: string = (await capsule.create('forgotten', 'app')).json.database_url;
  await setBack();
  const after = await capsule.create('forgotten', 'app');
  expect(after).toMatchObject({ status: 200, json: { created: true } });
  await fixture.broker.round('drift');
  const text = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
  expect(text).toMatch(/^space_db_unknown_objects 1$/m);
  expect(await unknown()).toEqual([{ name: nameOf(before), database: true, role: true }]);
  expect(await command('drop-unknown', nameOf(before))).toEqual({ dropped: nameOf(before) });
  expect(await unknown()).toEqual([]);
  expect(await census(fixture.server.superuserUrl)).toEqual([]);
  await expect(command('drop-unknown', nameOf(after.json.database_url))).rejects.toThrow(/no unknown/);
});

it('returns a forgotten database to its workload with a new password, and to nobody else', async () => {
  const capsule = await fixture.broker.capsule('adopted');
  await save();
  const before: string = (await capsule.create('adopted', 'app')).json.database_url;
  expect(await sqlstate(before, "CREATE TABLE t AS SELECT 'kept' AS word")).toBe('ok');
  await setBack();
  await expect(command('adopt', nameOf(before), 'adopted', 'other')).rejects.toThrow(/not made for/);
  expect(await command('adopt', nameOf(before), 'adopted', 'app')).toEqual({ adopted: nameOf(before) });
  const after: string = (await capsule.create('adopted', 'app')).json.database_url;
  expect(nameOf(after)).toBe(nameOf(before));
  expect(await sqlstate(before)).toBe('28P01');
  expect(await sqlstate(after, "SELECT 1 / (word = 'kept')::int FROM t")).toBe('ok');
  expect(await unknown()).toEqual([]);
  expect(await census(fixture.server.superuserUrl)).toEqual([]);
});

it('returns a database that replaced the one in the registry', async () => {
  const capsule = await fixture.broker.capsule('replaced');
  await capsule.create('replaced', 'app');
  await save();
  await capsule.drop('replaced', 'app');
  const living: string = (await capsule.create('replaced', 'app')).json.database_url;
  await setBack();
  expect((await capsule.create('replaced', 'app')).status).toBe(503);
  await command('adopt', nameOf(living), 'replaced', 'app');
  const after: string = (await capsule.create('replaced', 'app')).json.database_url;
  expect(nameOf(after)).toBe(nameOf(living));
  expect(await sqlstate(after)).toBe('ok');
  await expect(command('adopt', nameOf(living), 'replaced', 'app')).rejects.toThrow(/no unknown/);
});
