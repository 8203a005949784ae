-- The first registry of the object-storage broker. Never edited: servers have it.
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


-- What a Capsule has in the bucket in its present life.
CREATE TABLE broker.store (
  capsule_id text PRIMARY KEY REFERENCES broker.capsule,
  life integer NOT NULL CHECK (life > 0),
  place text NOT NULL UNIQUE CHECK (place ~ '^c/[0-9a-f]{40}/$'),
  quota_bytes bigint CHECK (quota_bytes > 0)
);

-- A dropped row is a tombstone: it proves the drop and keeps the generation.
CREATE TABLE broker.workload (
  capsule_id text NOT NULL REFERENCES broker.capsule,
  app_id text NOT NULL CHECK (octet_length(app_id) BETWEEN 1 AND 40),
  state text NOT NULL CHECK (state IN ('ready', 'dropping', 'dropped')),
  life integer NOT NULL CHECK (life > 0),
  generation integer NOT NULL CHECK (generation > 0),
  place text NOT NULL UNIQUE CHECK (place ~ '^c/[0-9a-f]{40}/a/[0-9a-f]{40}/$'),
  principal bytea UNIQUE CHECK (octet_length(principal) = 32),
  dropped_with_capsule boolean NOT NULL DEFAULT false,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (capsule_id, app_id),
  CHECK ((principal IS NOT NULL) = (state = 'ready'))
);
CREATE INDEX ON broker.workload (state) WHERE state = 'dropping';

-- Places that nobody can address any more. A write that was under way may still arrive, so they are swept again.
CREATE TABLE broker.dead_place (
  place text PRIMARY KEY,
  dead_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  swept_at timestamptz
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
