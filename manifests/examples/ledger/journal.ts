import type { Pool, PoolClient } from 'pg';
import type { Entry, Line } from './entry.ts';
import { inTransaction } from './transaction.ts';

export interface Posted extends Entry {
  readonly id: string;
  readonly date: string;
  readonly postedAt: Date;
}

interface Balance {
  readonly account: string;
  readonly currency: string;
  readonly minor: bigint;
}

interface Totals extends Omit<Balance, 'minor'> {
  readonly debits: bigint;
  readonly credits: bigint;
}

interface Page {
  /** Entries older than this one; undefined is from the newest on. */
  readonly before: string | undefined;
  readonly limit: number;
  readonly account: string | undefined;
}

/** The journal in its database. */
export interface Journal {
  /** Answers what is posted under its idempotency key now, and whether it was this call that did it. */
  post(entry: Entry, today: string): Promise<{ readonly posted: Posted; readonly created: boolean }>;
  find(id: string): Promise<Posted | undefined>;
  /** Newest first. */
  page(page: Page): Promise<readonly Posted[]>;
  /** What is dated in a month (`2026-11`), oldest first. */
  month(month: string): Promise<readonly Posted[]>;
  /** Balances of an account and everything below it, or of all accounts. */
  balances(account?: string): Promise<readonly Balance[]>;
  totals(): Promise<readonly Totals[]>;
}

interface EntryRow {
  readonly id: string;
  readonly date: string;
  readonly description: string;
  readonly idempotency_key: string | null;
  readonly posted_at: Date;
  readonly lines: readonly { readonly account: string; readonly currency: string; readonly minor: string }[];
}

/** Amounts travel as text: JSON numbers would lose digits. */
const SELECT = `
  SELECT entry.id::text, to_char(date, 'YYYY-MM-DD') AS date, description, idempotency_key, posted_at,
    (SELECT json_agg(json_build_object('account', name, 'currency', currency, 'minor', minor::text) ORDER BY position)
       FROM line JOIN account ON account.id = account_id WHERE entry_id = entry.id) AS lines
  FROM entry`;

/** An account or one below it. Names hold nothing that LIKE takes for a pattern. */
const BELOW = (parameter: string) => `(name = ${parameter} OR name LIKE ${parameter} || ':%')`;

export function createJournal(pool: Pool): Journal {
  return {
    post: (entry, today) => inTransaction(pool, (client) => post(client, entry, today)),

    async find(id) {
      const { rows } = await pool.query<EntryRow>(`${SELECT} WHERE id = $1`, [id]);
      return rows[0] && fromRow(rows[0]);
    },

    async page({ before, limit, account }) {
      const { rows } = await pool.query<EntryRow>(
        `${SELECT}
          WHERE ($1::bigint IS NULL OR entry.id < $1)
            AND ($2::text IS NULL OR EXISTS (
              SELECT FROM line JOIN account ON account.id = account_id
               WHERE entry_id = entry.id AND ${BELOW('$2')}))
          ORDER BY entry.id DESC LIMIT $3`,
        [before ?? null, account ?? null, limit],
      );
      return rows.map(fromRow);
    },

    async month(month) {
      const { rows } = await pool.query<EntryRow>(
        `${SELECT}
          WHERE date >= $1::date AND date < $1::date + interval '1 month'
          ORDER BY date, entry.id`,
        [`${month}-01`],
      );
      return rows.map(fromRow);
    },

    async balances(account) {
      const { rows } = await pool.query<{ account: string; currency: string; minor: string }>(
        `SELECT name AS account, currency, sum(minor)::text AS minor
           FROM line JOIN account ON account.id = account_id
          WHERE $1::text IS NULL OR ${BELOW('$1')}
          GROUP BY name, currency ORDER BY name, currency`,
        [account ?? null],
      );
      return rows.map((row) => ({ ...row, minor: BigInt(row.minor) }));
    },

    async totals() {
      const { rows } = await pool.query<{
        account: string;
        currency: string;
        debits: string;
        credits: string;
      }>(
        `SELECT name AS account, currency,
                coalesce(sum(minor) FILTER (WHERE minor > 0), 0)::text AS debits,
                coalesce(-sum(minor) FILTER (WHERE minor < 0), 0)::text AS credits
           FROM line JOIN account ON account.id = account_id
          GROUP BY name, currency ORDER BY name, currency`,
      );
      return rows.map((row) => ({ ...row, debits: BigInt(row.debits), credits: BigInt(row.credits) }));
    },
  };
}

async function post(
  client: PoolClient,
  entry: Entry,
  today: string,
): Promise<{ posted: Posted; created: boolean }> {
  // Waits for another transaction with the same key; after it, the next statement sees what that one posted.
  const { rows } = await client.query<{ id: string }>(
    `INSERT INTO entry (date, description, idempotency_key) VALUES ($1, $2, $3)
     ON CONFLICT (idempotency_key) DO NOTHING RETURNING id::text`,
    [entry.date ?? today, entry.description, entry.idempotencyKey ?? null],
  );
  const id = rows[0]?.id;
  if (id !== undefined) await addLines(client, id, entry.lines);
  const [by, value] = id === undefined ? ['idempotency_key', entry.idempotencyKey] : ['id', id];
  const found = await client.query<EntryRow>(`${SELECT} WHERE ${by} = $1`, [value]);
  const row = found.rows[0];
  if (row === undefined) throw new Error('an entry is gone that was there a moment ago');
  return { posted: fromRow(row), created: id !== undefined };
}

async function addLines(client: PoolClient, id: string, lines: readonly Line[]): Promise<void> {
  const column = <K extends keyof Line>(key: K) => lines.map((line) => line[key]);
  // Rows are inserted in the order of their names, so that two entries with the same new accounts cannot deadlock.
  await client.query(
    `INSERT INTO account (name) SELECT DISTINCT name FROM unnest($1::text[]) AS new (name)
      WHERE NOT EXISTS (SELECT FROM account WHERE account.name = new.name) ORDER BY name
     ON CONFLICT DO NOTHING`,
    [column('account')],
  );
  await client.query(
    `INSERT INTO line (entry_id, position, account_id, currency, minor)
     SELECT $1, position, account.id, currency, minor
       FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS new (name, currency, minor, position)
       JOIN account USING (name)`,
    [id, column('account'), column('currency'), column('minor')],
  );
}

const fromRow = (row: EntryRow): Posted => ({
  id: row.id,
  date: row.date,
  description: row.description,
  idempotencyKey: row.idempotency_key ?? undefined,
  postedAt: row.posted_at,
  lines: row.lines.map((line) => ({ ...line, minor: BigInt(line.minor) })),
});
