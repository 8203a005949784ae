import { randomBytes } from 'node:crypto';
import { ConfigError } from '../config.ts';
import type { Connections, Session } from '../server/connections.ts';

/** Each entry is applied once, in order, in one transaction with its number. Never edit one that was released. */
const MIGRATIONS: readonly string[] = [
  `
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

  -- The Capsule's own database has the empty app. A dropped row is a tombstone: it proves the drop and keeps the
  -- generation.
  CREATE TABLE broker.database (
    capsule_id text NOT NULL REFERENCES broker.capsule,
    app_id text NOT NULL CHECK (octet_length(app_id) <= 40),
    state text NOT NULL CHECK (state IN ('ready', 'dropping', 'dropped')),
    life integer NOT NULL,
    name text NOT NULL UNIQUE CHECK (octet_length(name) <= 63),
    generation integer NOT NULL CHECK (generation > 0),
    key_id text NOT NULL,
    rotation_due boolean NOT NULL DEFAULT false,
    closed boolean NOT NULL DEFAULT false,
    dropped_with_capsule boolean NOT NULL DEFAULT false,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (capsule_id, app_id)
  );
  CREATE INDEX ON broker.database (state) WHERE state = 'dropping';

  -- Sealed databases ready to be renamed.
  CREATE TABLE broker.spare (
    name text PRIMARY KEY CHECK (octet_length(name) <= 63)
  );

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
  `,
];

/** Serialises the start of several replicas; an arbitrary number that nothing else in the registry uses. */
const START_LOCK = 7_305_181_001;

/** Brings the registry up to date and returns the installation's random id, which our own names carry. */
export function migrate(connections: Connections, space: string): Promise<string> {
  return connections.transaction(async (session) => {
    await session.run('lock registry', 'SELECT pg_advisory_xact_lock($1)', [START_LOCK]);
    await session.run('create schema', 'CREATE SCHEMA IF NOT EXISTS broker');
    await session.run(
      'create version table',
      'CREATE TABLE IF NOT EXISTS broker.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())',
    );
    const [applied] = await session.run<{ version: number }>(
      'read version',
      'SELECT coalesce(max(version), 0) AS version FROM broker.migration',
    );
    const from = applied?.version ?? 0;
    if (from > MIGRATIONS.length) throw new ConfigError('the registry was written by a newer broker');
    for (const [index, statements] of MIGRATIONS.entries()) {
      if (index < from) continue;
      await session.run(`migration ${index + 1}`, statements);
      await session.run('note version', 'INSERT INTO broker.migration (version) VALUES ($1)', [index + 1]);
    }
    return installationId(session, space);
  });
}

async function installationId(session: Session, space: string): Promise<string> {
  await session.run(
    'create installation',
    'INSERT INTO broker.installation (id, space) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    [randomBytes(4).toString('hex'), space],
  );
  const [row] = await session.run<{ id: string; space: string }>(
    'read installation',
    'SELECT id, space FROM broker.installation',
  );
  if (row === undefined || row.space !== space)
    throw new ConfigError('SPACE_NAME: the registry is of another Space');
  return row.id;
}
