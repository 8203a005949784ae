import { type Fixture, openFixture } from '../../brokers/db/testing/postgres.ts';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import type { EmbeddedOptions } from '../../testing/postgres/server.ts';
import { prepareCluster, readCrds } from './prepare.ts';
import { makeSpace, type TestSpace } from './space.ts';

/** An API server with both kinds, a PostgreSQL and a broker, for the tests of one file. */
export interface TestEnvironment {
  readonly server: ApiServer;
  readonly database: Fixture;
  space(): Promise<TestSpace>;
  /** Names of all databases that somebody may open, and of all roles that may log in. */
  databases(): Promise<string[]>;
  close(): Promise<void>;
}

export async function openTestEnvironment(postgres: EmbeddedOptions = {}): Promise<TestEnvironment> {
  const [server, database] = await bothOrNone(startApiServer(), openFixture(postgres));
  await prepareCluster(server, readCrds());
  const spaces: TestSpace[] = [];
  return {
    server,
    database,
    async space() {
      const space = await makeSpace(server, database);
      spaces.push(space);
      return space;
    },
    async databases() {
      const rows = await database.sql<{ name: string }>(
        `SELECT 'database ' || datname AS name FROM pg_database WHERE datallowconn
         UNION SELECT 'role ' || rolname FROM pg_roles WHERE rolcanlogin ORDER BY name`,
      );
      return rows.map(({ name }) => name);
    },
    async close() {
      // Whatever a failed story left in a bad way, no process stays.
      await Promise.allSettled(spaces.map((space) => space.close()));
      await Promise.all([server.stop(), database.close()]);
    },
  };
}

/** What did start is ended when the other did not. */
async function bothOrNone(
  server: Promise<ApiServer>,
  database: Promise<Fixture>,
): Promise<[ApiServer, Fixture]> {
  try {
    return await Promise.all([server, database]);
  } catch (error) {
    await server.then(({ stop }) => stop()).catch(() => undefined);
    await database.then(({ close }) => close()).catch(() => undefined);
    throw error;
  }
}
