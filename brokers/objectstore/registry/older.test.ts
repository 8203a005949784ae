import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeOlder, schemaOf } from '../../../testing/postgres/older.ts';
import { connect, intoDatabase } from '../../db/testing/postgres.ts';
import { credentialsOf, type OwnStore, startOwnStore } from '../byok/credentials/testing/byok.ts';
import { type Assistant, assistant } from '../testing/assistant.ts';
import { BUCKET, type Client, startTestBroker, type TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { SCHEMA_VERSION } from './migrations.ts';

/** Registries as earlier versions of the broker had them; the third was the first with a custody. */

let store: OwnStore;
beforeAll(async () => {
  store = await startOwnStore();
});
afterAll(() => store?.remove());

describe.each([1, 3])('a registry of version %i', (version) => {
  let fixture: Fixture;
  let upgraded: TestBroker;
  let home: Client;
  let ledger: Assistant;
  let setId: string;
  let fields: ReturnType<OwnStore['fields']>;

  beforeAll(async () => {
    fixture = await openFixture({ environment: store.environment });
    const { broker } = fixture;
    home = await broker.capsule('home', { quota_bytes: 2 ** 30 });
    ledger = assistant(broker.dataUrl, await broker.workload(home, 'home', 'ledger'));
    await ledger.put('kept', 'of before');
    await broker.workload(home, 'home', 'gone');
    await home.drop('home', 'gone');
    const old = await broker.capsule('old');
    await old.dropAll('old');
    await broker.provisioner.finalize('old');
    fields = store.fields();
    if (version >= 3) {
      const own = credentialsOf(home, 'home');
      setId = (await own.create('archive', fields, 0)).json.set_id;
      await own.rotate(setId, fields, 1);
    }
    await broker.stop();

    const superuser = await connect(intoDatabase(fixture.server.superuserUrl, 'space_objectstore'));
    const shape = await schemaOf(superuser);
    await makeOlder(superuser, {
      file: new URL(`testing/version-${version}.sql`, import.meta.url),
      ...{ version, owner: 'space_objectstore' },
    });
    // That version wrote no epoch.
    rmSync(join(fixture.s3.directory, BUCKET, 'custody/v1/epoch-test'));
    upgraded = await startTestBroker(fixture.mounts, { environment: store.environment });
    expect(await schemaOf(superuser)).toEqual(shape);
    await superuser.end();
  });
  afterAll(async () => {
    await upgraded?.stop();
    await fixture?.close();
  });

  it('is migrated to the present version, and its principals stay valid', async () => {
    const versions = await fixture.registry('SELECT max(version) AS version FROM broker.migration');
    expect(versions).toEqual([{ version: SCHEMA_VERSION }]);
    const again = assistant(upgraded.dataUrl, ledger.token);
    expect((await again.get('kept')).text).toBe('of before');
    expect((await again.put('more', 'of after')).status).toBe(200);
    const usage = await upgraded.as(home.token).post('/v1/capsules/usage', { capsule_id: 'home' });
    expect(usage).toMatchObject({ status: 200, json: { quota_bytes: 2 ** 30 } });
  });

  it('accepts no retired principal, and continues its generations', async () => {
    const own = upgraded.as(home.token);
    await upgraded.workload(own, 'home', 'gone');
    const rows = await fixture.registry(
      "SELECT app_id, state, generation FROM broker.workload WHERE capsule_id = 'home' ORDER BY 1",
    );
    expect(rows).toEqual([
      { app_id: 'gone', state: 'ready', generation: 2 },
      { app_id: 'ledger', state: 'ready', generation: 1 },
    ]);
    const retired = await fixture.registry(
      "SELECT capsule_id FROM broker.retired_principal WHERE capsule_id = 'old'",
    );
    expect(retired).toEqual([{ capsule_id: 'old' }]);
  });

  it('keeps credential sets, or accepts the first one', async () => {
    const own = credentialsOf(upgraded.as(home.token), 'home');
    if (version < 3) setId = (await own.create('archive', fields, 0)).json.set_id;
    const generation = version < 3 ? 1 : 2;
    expect((await own.list()).json).toMatchObject({
      inventory_generation: generation,
      sets: [{ set_id: setId, name: 'archive', generation }],
    });
    expect((await own.select(setId, generation)).status).toBe(200);
    const { custody } = upgraded.context;
    const values = await custody.reveal(await custody.read('home', async () => 1), setId);
    expect(values.secretAccessKey).toBe(fields['secret-access-key']);
  });

  it('of a version that is too new is not changed', async () => {
    await fixture.registry('INSERT INTO broker.migration (version) VALUES ($1)', [SCHEMA_VERSION + 1]);
    await expect(startTestBroker(fixture.mounts)).rejects.toThrow(
      `the registry was written by a newer broker: its version is ${SCHEMA_VERSION + 1}, and this broker knows ${SCHEMA_VERSION}`,
    );
  });
});
