import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeOlder, schemaOf } from '../../../testing/postgres/older.ts';
import { type Client, startTestBroker, type TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { connect, type Fixture, intoDatabase, openFixture, query, sqlstate } from '../testing/postgres.ts';
import { SCHEMA_VERSION } from './migrations.ts';

/** A registry as the first version of the broker had it, with all that one may have in it. */

let fixture: Fixture;
let upgraded: TestBroker;
let home: Client;
let shape: string[];
/** What callers were given and had before. */
const urls = { before: '', after: '' };
const audited = () => fixture.registry<{ n: number }>('SELECT count(*)::int AS n FROM broker.audit');
let entries: number;

beforeAll(async () => {
  fixture = await openFixture();
  const { broker } = fixture;
  home = await broker.capsule('home');
  urls.before = (await home.create('home', 'ledger')).json.database_url;
  await query(urls.before, "CREATE TABLE kept AS SELECT 'of before' AS word");
  await home.create('home', 'gone');
  await home.drop('home', 'gone');
  const old = await broker.capsule('old');
  await old.dropAll('old');
  await broker.provisioner.finalize('old');
  const half = await broker.capsule('half');
  await half.create('half', 'app');
  await fixture.registry(
    `UPDATE broker.database SET state = 'dropping' WHERE capsule_id = 'half' AND app_id = 'app'`,
  );
  await broker.stop();

  const superuser = await connect(intoDatabase(fixture.server.superuserUrl, 'space_registry'));
  shape = await schemaOf(superuser);
  entries = (await audited())[0]?.n ?? 0;
  await makeOlder(superuser, {
    file: new URL('testing/version-1.sql', import.meta.url),
    version: 1,
    owner: 'space_broker',
  });
  upgraded = await startTestBroker(fixture.mounts);
  expect(await schemaOf(superuser)).toEqual(shape);
  await superuser.end();
});
afterAll(async () => {
  await upgraded?.stop();
  await fixture.close();
});

describe('a registry of the first version', () => {
  it('has the schema of a new one after the migration, with all its rows', async () => {
    const [{ version } = { version: 0 }] = await fixture.registry<{ version: number }>(
      'SELECT max(version) AS version FROM broker.migration',
    );
    expect(version).toBe(SCHEMA_VERSION);
    const rows = await fixture.registry(
      'SELECT capsule_id, app_id, state, generation, epoch FROM broker.database ORDER BY 1, 2',
    );
    expect(rows).toEqual([
      { capsule_id: 'half', app_id: '', state: 'ready', generation: 1, epoch: '' },
      { capsule_id: 'half', app_id: 'app', state: 'dropping', generation: 1, epoch: '' },
      { capsule_id: 'home', app_id: '', state: 'ready', generation: 1, epoch: '' },
      { capsule_id: 'home', app_id: 'gone', state: 'dropped', generation: 1, epoch: '' },
      { capsule_id: 'home', app_id: 'ledger', state: 'ready', generation: 1, epoch: '' },
      { capsule_id: 'old', app_id: '', state: 'dropped', generation: 1, epoch: '' },
    ]);
    expect((await audited())[0]?.n).toBe(entries);
    await expect(fixture.registry('DELETE FROM broker.audit')).rejects.toThrow('append-only');
  });

  it('returns the database of a workload with its contents', async () => {
    const again = await upgraded.as(home.token).create('home', 'ledger');
    expect(again).toMatchObject({ status: 200, json: { created: false } });
    urls.after = again.json.database_url;
    expect(new URL(urls.after).pathname).toBe(new URL(urls.before).pathname);
    expect(await query(urls.after, 'SELECT word FROM kept')).toEqual([{ word: 'of before' }]);
  });

  it('continues with its generations, its retired principals and its drops', async () => {
    const own = upgraded.as(home.token);
    expect((await own.create('home', 'gone')).json.created).toBe(true);
    const generation = await fixture.registry(
      "SELECT generation FROM broker.database WHERE capsule_id = 'home' AND app_id = 'gone'",
    );
    expect(generation).toEqual([{ generation: 2 }]);
    const retired = await fixture.registry('SELECT capsule_id FROM broker.retired_principal');
    expect(retired).toEqual([{ capsule_id: 'old' }]);
    expect((await own.dropAll('home')).status).toBe(200);
    expect(await sqlstate(urls.after)).not.toBe('ok');
    await fixture.registry(
      "UPDATE broker.database SET changed_at = now() - interval '1 hour' WHERE state = 'dropping'",
    );
    await upgraded.round('pending drops');
    expect(await census(fixture.server.superuserUrl)).toEqual([]);
  });
});

it('a registry of a newer version is not changed, and the broker names both versions', async () => {
  await fixture.registry('INSERT INTO broker.migration (version) VALUES ($1)', [SCHEMA_VERSION + 1]);
  const older = startTestBroker(fixture.mounts);
  await expect(older).rejects.toThrow(
    `the registry was written by a newer broker: its version is ${SCHEMA_VERSION + 1}, and this broker knows ${SCHEMA_VERSION}`,
  );
  await fixture.registry('DELETE FROM broker.migration WHERE version > $1', [SCHEMA_VERSION]);
});
