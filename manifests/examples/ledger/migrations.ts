import type { Pool, PoolClient } from 'pg';
import { inTransaction } from './transaction.ts';

/** In order; what has run once is never changed, only added to. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE account (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
  );

  CREATE TABLE entry (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    date            date NOT NULL,
    description     text NOT NULL,
    idempotency_key text UNIQUE,
    posted_at       timestamptz NOT NULL DEFAULT now()
  );

  CREATE TABLE line (
    entry_id   bigint   NOT NULL REFERENCES entry,
    position   smallint NOT NULL,
    account_id integer  NOT NULL REFERENCES account,
    currency   char(3)  NOT NULL,
    minor      bigint   NOT NULL CHECK (minor <> 0),
    PRIMARY KEY (entry_id, position)
  );
  CREATE INDEX line_account ON line (account_id, currency) INCLUDE (minor);

  -- The server checks first; this holds against everything else that ever writes here.
  CREATE FUNCTION refuse_unbalanced() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF EXISTS (SELECT FROM line WHERE entry_id = NEW.entry_id GROUP BY currency HAVING sum(minor) <> 0) THEN
      RAISE EXCEPTION 'entry % does not sum to zero', NEW.entry_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
  END $$;
  CREATE CONSTRAINT TRIGGER balanced AFTER INSERT ON line
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_unbalanced();

  -- A journal is only ever added to: a mistake is mended by a second entry.
  CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    RAISE EXCEPTION 'the journal is only added to' USING ERRCODE = 'integrity_constraint_violation';
  END $$;
  CREATE TRIGGER added_to_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entry EXECUTE FUNCTION refuse_change();
  CREATE TRIGGER added_to_only BEFORE UPDATE OR DELETE OR TRUNCATE ON line EXECUTE FUNCTION refuse_change();
  `,
];

/** Any number that everybody who migrates this database agrees on. */
const LOCK = 5_271_009;

/** Brings the schema to the newest version. Replicas that start together take turns; the second finds it done. */
export const migrate = (pool: Pool): Promise<void> => inTransaction(pool, bringUp);

async function bringUp(client: PoolClient): Promise<void> {
  await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
  await client.query('CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)');
  const { rows } = await client.query<{ version: number }>(
    'SELECT max(version) AS version FROM schema_version',
  );
  const current = rows[0]?.version ?? 0;
  if (current > MIGRATIONS.length) {
    throw new Error(`the database has schema ${current}; this program knows up to ${MIGRATIONS.length}`);
  }
  for (const [index, sql] of MIGRATIONS.entries()) {
    if (index < current) continue;
    await client.query(sql);
    await client.query('INSERT INTO schema_version VALUES ($1)', [index + 1]);
  }
}
