import pg from 'pg';
import { parsePgoutput, type Transaction } from './pgoutput.ts';

/** All committed changes of some tables, in the order of their commits. Needs a server with `wal_level = logical`. */
export interface Changes {
  /** Returns those that were committed since the last call. */
  read(): Promise<Transaction[]>;
  close(): Promise<void>;
}

/** Changes are read from the server's log, so nothing is added to the watched transactions. */
export const LOGGED = { wal_level: 'logical' } as const;

const NAME = 'observed';

/** Watches existing tables of the schema `broker`, as superuser. */
export async function watchChanges(url: string, tables: readonly string[]): Promise<Changes> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  const names = tables.map((table) => `broker.${table}`);
  // The whole old row is logged, not only its key.
  for (const name of names) await client.query(`ALTER TABLE ${name} REPLICA IDENTITY FULL`);
  await client.query(`CREATE PUBLICATION ${NAME} FOR TABLE ${names.join(', ')}`);
  await client.query(`SELECT pg_create_logical_replication_slot('${NAME}', 'pgoutput')`);
  return {
    read: async () => {
      const { rows } = await client.query<{ data: Buffer }>(
        `SELECT data FROM pg_logical_slot_get_binary_changes('${NAME}', NULL, NULL,
           'proto_version', '1', 'publication_names', '${NAME}', 'messages', 'true')`,
      );
      return parsePgoutput(rows.map(({ data }) => data));
    },
    close: () => client.end(),
  };
}
