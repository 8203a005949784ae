import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { type S3Options, type S3Server, startS3Server } from '../../../testing/s3.ts';
import { intoDatabase, query } from '../../db/testing/postgres.ts';
import {
  BUCKET,
  type Mounts,
  mountFiles,
  startTestBroker,
  type TestBroker,
  type TestBrokerOptions,
} from './broker.ts';

/** A real PostgreSQL, a real S3 server and a broker on them, for one test file. */
export interface Fixture {
  readonly server: EmbeddedServer;
  readonly s3: S3Server;
  readonly mounts: Mounts;
  readonly broker: TestBroker;
  /** Another broker on the same server, store and files. */
  replica(options?: TestBrokerOptions): Promise<TestBroker>;
  /** Runs a statement as superuser in the registry. */
  registry<Row extends Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

export async function openFixture(
  options: TestBrokerOptions = {},
  s3Options: S3Options = {},
): Promise<Fixture> {
  const server = await startEmbeddedServer({ durable: false });
  try {
    const fixture = await openFixtureOn(server, options, s3Options);
    return {
      ...fixture,
      close: async () => {
        await fixture.close();
        await server.remove();
      },
    };
  } catch (error) {
    await server.remove();
    throw error;
  }
}

/** The same on a PostgreSQL that somebody else has and ends. */
export async function openFixtureOn(
  server: EmbeddedServer,
  options: TestBrokerOptions = {},
  s3Options: S3Options = {},
): Promise<Fixture> {
  const s3 = await startS3Server(s3Options);
  try {
    s3.makeBucket(BUCKET);
    const mounts = mountFiles(server.objectStoreUrl, s3);
    const broker = await startTestBroker(mounts, options);
    const registryUrl = intoDatabase(server.superuserUrl, 'space_objectstore');
    return {
      server,
      s3,
      mounts,
      broker,
      replica: (more) => startTestBroker(mounts, more),
      registry: (text, values) => query(registryUrl, text, values),
      close: async () => {
        await broker.stop();
        await s3.remove();
        mounts.remove();
      },
    };
  } catch (error) {
    await s3.remove();
    throw error;
  }
}
