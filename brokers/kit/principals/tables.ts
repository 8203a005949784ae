import { randomBytes } from 'node:crypto';
import { ConfigError } from '../config.ts';
import type { Session } from '../postgres/session.ts';

/** The beginning of every broker's first migration. It is released, and so never edited. */
export const CAPSULE_TABLES = `
  CREATE TABLE broker.installation (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id text NOT NULL CHECK (id ~ '^[0-9a-f]{8}$'),
    space text NOT NULL
  );

  CREATE TABLE broker.capsule (
    capsule_id text PRIMARY KEY CHECK (octet_length(capsule_id) BETWEEN 1 AND 40),
    state text NOT NULL CHECK (state IN ('active', 'dropping', 'retired', 'finalized')),
    life integer NOT NULL CHECK (life > 0),
    principal bytea UNIQUE CHECK (octet_length(principal) = 32),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((principal IS NOT NULL) = (state IN ('active', 'dropping')))
  );

  -- Digests that were a principal once and never will be again.
  CREATE TABLE broker.retired_principal (
    principal bytea PRIMARY KEY CHECK (octet_length(principal) = 32),
    capsule_id text NOT NULL,
    retired_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
`;

/** The end of every broker's first migration. It is released, and so never edited. */
export const AUDIT_TABLE = `
  CREATE TABLE broker.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    trace_id text NOT NULL,
    operation text NOT NULL,
    authority text NOT NULL,
    capsule_id text NOT NULL,
    app_id text NOT NULL,
    outcome text NOT NULL
  );
  CREATE FUNCTION broker.audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$;
  CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON broker.audit
    FOR EACH STATEMENT EXECUTE FUNCTION broker.audit_is_append_only();
`;

/** The random installation id. Throws if the registry belongs to another Space. */
export async function installationId(session: Session, space: string): Promise<string> {
  await session.run(
    'create installation',
    'INSERT INTO broker.installation (id, space) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    [randomBytes(4).toString('hex'), space],
  );
  const [row] = await session.read<{ id: string; space: string }>(
    'read installation',
    'SELECT id, space FROM broker.installation',
  );
  if (row === undefined || row.space !== space)
    throw new ConfigError('SPACE_NAME: the registry is of another Space');
  return row.id;
}
