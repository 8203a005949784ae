import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { type Mounts, mountFiles, startTestBroker, type TestBroker } from './broker.ts';
import { intoDatabase, query } from './postgres.ts';

/** What a servers file says beside where its server is. */
interface Share {
  readonly weight?: number;
  readonly drain?: boolean;
}

/** Two PostgreSQL servers, `main` and `b`, and brokers that have both. */
export interface TwoServers {
  readonly main: EmbeddedServer;
  readonly b: EmbeddedServer;
  readonly mounts: Mounts;
  /** Writes a servers file, and returns the environment of a broker that reads it. */
  environment(shares?: { main?: Share; b?: Share }, portOfB?: number): Record<string, string>;
  start(options?: {
    shares?: { main?: Share; b?: Share };
    failpoint?: (name: string) => void;
    /** Where the broker finds b, if not where it is. */
    portOfB?: number;
  }): Promise<TestBroker>;
  /** Runs a statement as superuser in a registry. */
  registry<Row extends pg.QueryResultRow>(
    server: EmbeddedServer,
    text: string,
    values?: unknown[],
  ): Promise<Row[]>;
  /** Which server a database's URL leads to. */
  serverOf(url: string): 'main' | 'b';
  close(): Promise<void>;
}

/** The entry of a server in the file, whose password is put into a file beside it. */
export function entryOf(mounts: Mounts, name: string, brokerUrl: string, port: number): object {
  const url = new URL(brokerUrl);
  const passwordFile = join(mounts.directory, `${name}.password`);
  writeFileSync(passwordFile, decodeURIComponent(url.password), { mode: 0o600 });
  url.password = '';
  return { name, url: url.href, passwordFile, issued: { host: '127.0.0.1', port } };
}

/** A start waits for further servers for some seconds only, in which a busy machine may not have come to them. */
function wasContacted({ state }: TestBroker['servers']['all'][number]): boolean {
  const now = state();
  return now.kind === 'ready' || now.why !== 'it was not contacted yet';
}

export async function openTwoServers({
  major,
  majorOfB = major,
}: {
  readonly major?: PostgresMajor;
  readonly majorOfB?: PostgresMajor | undefined;
} = {}): Promise<TwoServers> {
  const start = (version: PostgresMajor | undefined) =>
    startEmbeddedServer({
      durable: false,
      settings: { synchronous_commit: 'on' },
      ...(version === undefined ? {} : { major: version }),
    });
  const [main, b] = await Promise.all([start(major), start(majorOfB)]);
  const mounts = mountFiles(main);
  let files = 0;
  const environment: TwoServers['environment'] = (shares = {}, portOfB = b.port) => {
    files += 1;
    const url = new URL(b.brokerUrl);
    url.port = String(portOfB);
    const path = join(mounts.directory, `servers-${files}.json`);
    const servers = [{ ...entryOf(mounts, 'b', url.href, b.port), ...shares.b }];
    writeFileSync(path, JSON.stringify({ ...(shares.main ? { main: shares.main } : {}), servers }));
    return { ...mounts.environment, SERVERS_FILE: path };
  };
  return {
    main,
    b,
    mounts,
    environment,
    start: async ({ shares, failpoint, portOfB } = {}) => {
      const broker = await startTestBroker(mounts, {
        environment: environment(shares, portOfB),
        ...(failpoint === undefined ? {} : { failpoint }),
      });
      await eventually(() => broker.servers.all.every(wasContacted), { what: 'each server to be contacted' });
      return broker;
    },
    registry: (server, text, values) =>
      query(intoDatabase(server.superuserUrl, 'space_registry'), text, values),
    serverOf: (url) => (Number(new URL(url).port) === b.port ? 'b' : 'main'),
    close: async () => {
      await Promise.all([main.remove(), b.remove()]);
      mounts.remove();
    },
  };
}
