-- The first registry of the database broker. Never edited: servers have it.
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
