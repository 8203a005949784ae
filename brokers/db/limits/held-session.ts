import type { Watched } from '@space/broker-kit';
import { QUIET_MS, type ServerAddress } from '@space/broker-kit/postgres';
import pg from 'pg';

const STATEMENT_MS = 10_000;

/**
 * Reading these catalogues takes the locks that are kept: on pg_authid, pg_auth_members, pg_database,
 * pg_db_role_setting and their indexes.
 */
const HOLD = `SELECT (SELECT count(*) FROM pg_roles), (SELECT count(*) FROM pg_auth_members), (SELECT count(*) FROM pg_database)`;

/**
 * The session of the watch, whose one transaction does not end: when the lock table is full, or somebody waits for an
 * exclusive lock on a shared catalogue, nobody can log in, and only a session that already has its locks can read the
 * catalogues. The transaction has no snapshot, so it does not hold back vacuum.
 */
export function holdSession(address: Watched<ServerAddress>) {
  let client: pg.Client | undefined;
  let holding = false;
  return {
    current: () => client,
    async open(): Promise<pg.Client> {
      client ??= await openSession(address);
      if (!holding) {
        await client.query('BEGIN');
        await client.query(HOLD);
        // A statement that fails ends only what follows this, and the locks stay.
        await client.query('SAVEPOINT held');
        holding = true;
      }
      return client;
    },
    /** Ends the transaction, for somebody who waits for its locks; the next `open` begins another one. */
    async letGo(): Promise<void> {
      holding = false;
      await client?.query('COMMIT');
    },
    /** A session that still answers is kept, since a new one could not log in while the lock table is full. */
    async recover(): Promise<void> {
      const failed = client;
      if (failed === undefined) return;
      try {
        await failed.query(holding ? 'ROLLBACK TO SAVEPOINT held' : 'ROLLBACK');
      } catch {
        client = undefined;
        holding = false;
        await failed.end().catch(() => undefined);
      }
    },
  };
}

async function openSession(address: Watched<ServerAddress>): Promise<pg.Client> {
  await address.refresh();
  const { host, port, database, user, password, ssl } = address.current();
  const opened = new pg.Client({
    host,
    port,
    database,
    user,
    ssl,
    password: password.reveal(),
    application_name: 'space-db-broker-watch',
    keepAlive: true,
    keepAliveInitialDelayMillis: QUIET_MS,
    connectionTimeoutMillis: STATEMENT_MS,
    query_timeout: STATEMENT_MS,
    options: '-c search_path=pg_catalog -c idle_in_transaction_session_timeout=0 -c lock_timeout=1s',
  });
  opened.on('error', () => undefined);
  await opened.connect();
  // Earlier versions do not know this setting, and would refuse the session.
  await opened.query(
    `SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'`,
  );
  return opened;
}
