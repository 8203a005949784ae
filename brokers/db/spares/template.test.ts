import { createServer } from 'node:net';
import { portOf, Secret } from '@space/broker-kit';
import type { ServerAddress } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Fixture, openFixture } from '../testing/postgres.ts';
import { spareNames } from './names.ts';
import { makeSpare } from './pool.ts';
import { ensureTemplate } from './template.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

it('a template that cannot be created leaves no lock that would block other replicas', async () => {
  // Of another installation, so that no round of the broker looks at it.
  const names = spareNames('00000000', 0);
  // Not finished, and the server refuses to drop it.
  await fixture.sql(`CREATE DATABASE ${names.template} OWNER space_broker IS_TEMPLATE true`);
  const { connections } = fixture.broker.context;
  const address = undefined as never; // Nothing is connected to before that is dropped.
  await expect(ensureTemplate(connections, address, names)).rejects.toThrow(
    'drop unfinished template: 42809',
  );
  const [lock] = await fixture.registry<{ free: boolean }>(
    'SELECT pg_try_advisory_xact_lock(7305181002) AS free',
  );
  expect(lock).toEqual({ free: true });
  await fixture.sql(`ALTER DATABASE ${names.template} IS_TEMPLATE false`);
});

it('a template whose server stops answering blocks neither the lock nor its caller without limit, and is never cloned', async () => {
  const silent = createServer((socket) => socket.on('error', () => undefined).pause());
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const names = spareNames('00000001', 0);
  const { connections } = fixture.broker.context;
  const value = {
    host: '127.0.0.1',
    port: portOf(silent),
    database: '',
    user: 'nobody',
    password: new Secret(''),
    ssl: false,
  };
  const address = {
    current: () => value as ServerAddress,
    refresh: async () => undefined,
    close: () => undefined,
  };
  await expect(ensureTemplate(connections, address, names)).rejects.toThrow('furnish template');
  // In a clone of it a tenant could not use the public schema.
  await expect(connections.session((session) => makeSpare(session, names))).rejects.toThrow(
    'create spare: 3D000',
  );
  const [lock] = await fixture.registry<{ free: boolean }>(
    'SELECT pg_try_advisory_xact_lock(7305181002) AS free',
  );
  expect(lock).toEqual({ free: true });
  silent.close();
});
