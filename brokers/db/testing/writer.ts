import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { query } from './postgres.ts';

/** A tenant that inserts one row after the other into a database of its own, and connects again when it is cut. */
export interface RowWriter {
  /** Rows whose COMMIT was answered. */
  acknowledged(): number;
  /** Ends, and says which of them are not there. */
  lost(): Promise<number[]>;
}

export interface WriterOptions {
  /** Between two rows, in milliseconds. */
  readonly gapMs?: number;
  /** Called when a COMMIT is answered. */
  readonly onRow?: () => void;
}

export async function writeRows(
  url: string,
  { gapMs = 0, onRow = () => undefined }: WriterOptions = {},
): Promise<RowWriter> {
  await query(url, 'CREATE TABLE IF NOT EXISTS written (n int PRIMARY KEY)');
  const acknowledged: number[] = [];
  let ended = false;
  let next = 0;
  const insertUntilCut = async (client: pg.Client) => {
    while (!ended) {
      next += 1;
      await client.query('INSERT INTO written VALUES ($1)', [next]);
      acknowledged.push(next);
      onRow();
      if (gapMs > 0) await wait(gapMs);
    }
  };
  const writing = (async () => {
    while (!ended) {
      const client = new pg.Client({
        connectionString: url,
        connectionTimeoutMillis: 2_000,
        query_timeout: 10_000,
      });
      client.on('error', () => undefined);
      try {
        await client.connect();
        await insertUntilCut(client);
      } catch {
        // A row in progress may exist or not, since its commit has no answer.
        await wait(20);
      } finally {
        await client.end().catch(() => undefined);
      }
    }
  })();
  return {
    acknowledged: () => acknowledged.length,
    lost: async () => {
      ended = true;
      await writing;
      const rows = await query<{ n: number }>(url, 'SELECT n FROM written');
      const there = new Set(rows.map(({ n }) => n));
      return acknowledged.filter((n) => !there.has(n));
    },
  };
}
