import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { createLogger } from '../log.ts';
import { serverParser } from './address.ts';
import { type Connections, openConnections } from './connections.ts';

/** The answer of a server whose lock table is full. */
const FULL = "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '53200'; END $$";

describe('a transaction that finds the server full', () => {
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

  it('is retried until the sessions that fill it were ended', async () => {
    const attempts = await connections.transaction(async (session, attempt) => {
      if (attempt < 3) await session.run('fill', FULL);
      return attempt;
    });
    expect(attempts).toBe(3);
  });

  it('fails in the end if it stays full', async () => {
    let last = 0;
    const stays = connections.transaction(async (session, attempt) => {
      last = attempt;
      await session.run('fill', FULL);
    });
    await expect(stays).rejects.toMatchObject({ code: '53200' });
    expect(last).toBe(5);
  });
});
