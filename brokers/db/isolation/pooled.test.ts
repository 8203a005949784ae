import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type PoolOptions, startPool } from '../../../testing/postgres/pool.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { type Fixture as FilesFixture, openFixtureOn } from '../../objectstore/testing/fixture.ts';
import { type Mounts, mountFiles, startTestBroker } from '../testing/broker.ts';
import { intoDatabase, query } from '../testing/postgres.ts';

/** Both brokers behind a real pgbouncer, which lends one session of the server to several of its clients. */

let server: EmbeddedServer;
let mounts: Mounts;
let files: FilesFixture;
beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  mounts = mountFiles(server);
  files = await openFixtureOn(server);
});
afterAll(async () => {
  await files?.close();
  mounts?.remove();
  await server?.remove();
});

async function throughPool(url: string, options: Omit<PoolOptions, 'url'>): Promise<string> {
  const pool = await startPool({ url, ...options });
  onTestFinished(() => pool.remove());
  const through = new URL(url);
  through.port = String(pool.port);
  return through.href;
}

const MODES = ['session', 'transaction'] as const;
/** What a pool does with the settings of a session: the sentence of the refusal follows from it. */
const KINDS = [
  [
    'refuses',
    false,
    /refuses the settings of a session, as a connection pooler .* does: name the server itself/,
  ],
  ['drops', true, /a connection pooler answers instead of the server, .*: name the server itself/],
] as const;
const CASES = MODES.flatMap((mode) => KINDS.map((kind) => [mode, ...kind] as const));

describe('a connection pooler in front of the server', () => {
  it.each(CASES)(
    'in %s mode, which %s settings, is refused by the database broker',
    async (mode, _, dropsSettings, why) => {
      mounts.write('url', await throughPool(server.brokerUrl, { mode, dropsSettings }));
      await expect(startTestBroker(mounts)).rejects.toThrow(why);
      expect(
        await query(
          intoDatabase(server.superuserUrl, 'space_registry'),
          "SELECT FROM pg_namespace WHERE nspname = 'broker'",
        ),
      ).toEqual([]);
    },
  );

  it.each(CASES)(
    'in %s mode, which %s settings, is refused by the object-storage broker',
    async (mode, _, dropsSettings, why) => {
      const url = files.mounts.write(
        'pooled',
        await throughPool(server.objectStoreUrl, { mode, dropsSettings }),
      );
      await expect(files.replica({ environment: { REGISTRY_DATABASE_URL_FILE: url } })).rejects.toThrow(why);
    },
  );
});
