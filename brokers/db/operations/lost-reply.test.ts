import { writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { newToken, portOf } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { type Stage, setStage, sqlstate } from '../testing/postgres.ts';

/** Between broker and server: loses the server's answer to the next COMMIT, and the connection with it. */
let stage: Stage;
let broker: TestBroker;
let proxy: Server;
let armed = false;

beforeAll(async () => {
  stage = await setStage();
  proxy = createServer((inside) => {
    const outside = connect(stage.server.port, '127.0.0.1');
    let losing = false;
    inside.on('data', (chunk) => {
      if (armed && chunk.includes('COMMIT')) {
        armed = false;
        losing = true;
      }
      outside.write(chunk);
    });
    outside.on('data', (chunk) => {
      // The server has answered, so it has committed.
      if (losing) inside.destroy();
      else inside.write(chunk);
    });
    for (const [one, other] of [[inside, outside] as const, [outside, inside] as const]) {
      one.on('close', () => other.destroy());
      one.on('error', () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const url = new URL(stage.server.brokerUrl);
  url.port = String(portOf(proxy));
  const path = join(stage.mounts.directory, 'proxied');
  writeFileSync(path, url.href);
  // Without spares to make, no COMMIT but the operation's own comes by.
  broker = await stage.replica({ environment: { ADMIN_DATABASE_URL_FILE: path, SPARE_DATABASES: '0' } });
});
afterAll(async () => {
  await broker.stop();
  proxy.close();
  await stage.close();
});

it('an operation whose commit was not heard of says so, and its retry finds it done', async () => {
  const principal = newToken('dbp').reveal();
  const { provisioner } = broker;
  const twice = async (act: () => ReturnType<typeof provisioner.finalize>) => {
    armed = true;
    const lost = await act();
    expect(armed).toBe(false);
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
  // The first transaction of a Capsule's drop was committed, so the retry goes on with it.
  const gone = await twice(() => capsule.dropAll('unheard'));
  expect(gone.json.dropped).toHaveLength(1);
  expect((await twice(() => provisioner.finalize('unheard'))).json.finalized).toBe(true);
  expect(await census(stage.server.superuserUrl)).toEqual([]);
});
