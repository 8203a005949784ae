import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { ConfigError } from '../config.ts';
import { createLogger } from '../log.ts';
import { serverParser } from './address.ts';
import { type Connections, openConnections } from './connections.ts';
import { applyMigrations } from './migrations.ts';

const FIRST = 'CREATE TABLE broker.one (word text)';
const SECOND = "INSERT INTO broker.one VALUES ('second')";
const THIRD = "INSERT INTO broker.one VALUES ('third')";

let server: EmbeddedServer;
let connections: Connections;

beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  const value = serverParser({ url: undefined, setting: 'ADMIN_DATABASE' }, () => '')(server.brokerUrl);
  const address = { current: () => value, refresh: async () => undefined, close: () => undefined };
  const log = createLogger({ service: 'test', level: 'fatal' });
  connections = openConnections(address, log, { application: 'test', work: 1, lookup: 1 });
});
afterAll(async () => {
  await connections?.close();
  await server?.remove();
});

const bring = (...migrations: readonly string[]) =>
  connections.transaction((session) => applyMigrations(session, migrations));
const written = () =>
  connections.session((session) =>
    session.read(
      'look',
      `SELECT (SELECT array_agg(word ORDER BY word) FROM broker.one) AS words,
              (SELECT max(version) FROM broker.migration) AS version`,
    ),
  );

it('a registry is migrated to the version of the broker, with each migration once', async () => {
  await bring(FIRST, SECOND);
  await bring(FIRST, SECOND, THIRD);
  await bring(FIRST, SECOND, THIRD);
  expect(await written()).toEqual([{ words: ['second', 'third'], version: 3 }]);
});

it('a registry that a newer broker wrote is refused by an older one, which changes nothing in it', async () => {
  const older = bring(FIRST, SECOND);
  await expect(older).rejects.toThrow(ConfigError);
  await expect(older).rejects.toThrow('the registry was written by a newer broker');
  expect(await written()).toEqual([{ words: ['second', 'third'], version: 3 }]);
});
