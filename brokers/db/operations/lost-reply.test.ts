import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTcpProxy, type TcpProxy } from '../../../testing/tcp-proxy.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';

/** The server's answer to a COMMIT is lost, and the connection with it. */
let fixture: Fixture;
let broker: TestBroker;
let line: TcpProxy;

beforeAll(async () => {
  fixture = await openFixture();
  line = await openTcpProxy(fixture.server);
  const url = new URL(fixture.server.brokerUrl);
  url.port = String(line.port);
  const path = join(fixture.mounts.directory, 'proxied');
  writeFileSync(path, url.href);
  broker = await fixture.replica({ environment: { ADMIN_DATABASE_URL_FILE: path, SPARE_DATABASES: '0' } });
});
afterAll(async () => {
  await broker.stop();
  await line.close();
  await fixture.close();
});

it('an operation whose commit has no answer fails as such, and its retry finds it done', async () => {
  const principal = newToken('dbp').reveal();
  const { provisioner } = broker;
  const twice = async (act: () => ReturnType<typeof provisioner.finalize>) => {
    // Of a transaction that writes an audit, by its prepared statement: the upkeep's do not.
    const sprung = line.cutAt('COMMIT', 'after', /\0audit [0-9a-f]{8}\0/);
    const lost = await act();
    expect(sprung()).toBe(true);
    expect(lost).toMatchObject({ status: 503, json: { error: { code: 'unavailable' } } });
    return act();
  };
  const capsule = broker.as(principal);
  const provisioned = await twice(() => provisioner.provision('unheard', principal));
  expect(provisioned.json).toMatchObject({ created: false });
  const created = await twice(() => capsule.create('unheard', 'app'));
  expect(created.json).toMatchObject({ created: false });
  expect(await sqlstate(created.json.database_url)).toBe('ok');
  const dropped = await twice(() => capsule.drop('unheard', 'app'));
  expect(dropped).toMatchObject({
    status: 200,
    json: { dropped: new URL(created.json.database_url).pathname.slice(1) },
  });
  expect((await capsule.drop('unheard', 'app')).json.already_absent).toBe(true);
  // The first transaction of a Capsule's drop was committed, so the retry continues it.
  const gone = await twice(() => capsule.dropAll('unheard'));
  expect(gone.json.dropped).toHaveLength(1);
  expect((await twice(() => provisioner.finalize('unheard'))).json.finalized).toBe(true);
  // What an earlier incarnation of the id dropped is no proof for the next.
  const next = newToken('dbp').reveal();
  await provisioner.provision('unheard', next);
  expect((await broker.as(next).drop('unheard', 'app')).status).toBe(404);
  expect((await broker.as(next).dropAll('unheard')).json.dropped).toHaveLength(1);
  await provisioner.finalize('unheard');
  expect(await census(fixture.server.superuserUrl)).toEqual([]);
});
