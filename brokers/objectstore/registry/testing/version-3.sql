-- The third registry of the object-storage broker, the first with a custody. Never edited: servers have it.
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

CREATE TABLE broker.object_usage (
  place text PRIMARY KEY CHECK (place ~ '^c/[0-9a-f]{40}/$'),
  counted bigint NOT NULL DEFAULT 0 CHECK (counted >= 0),
  written bigint NOT NULL DEFAULT 0 CHECK (written >= 0),
  count_number integer NOT NULL DEFAULT 0,
  counted_at timestamptz
);

-- Bytes that a replica may write, is writing, or has written and not yet told.
CREATE TABLE broker.object_block (
  place text NOT NULL REFERENCES broker.object_usage ON DELETE CASCADE,
  replica text NOT NULL,
  bytes bigint NOT NULL CHECK (bytes >= 0),
  renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (place, replica)
);
CREATE INDEX ON broker.object_block (replica);

CREATE TABLE broker.object_upload (
  id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{32}$'),
  place text NOT NULL REFERENCES broker.object_usage ON DELETE CASCADE,
  -- The tenant's own prefix: who may use the upload, and what it goes away with.
  room text NOT NULL,
  key text NOT NULL,
  upstream_id text NOT NULL,
  bytes bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON broker.object_upload (room text_pattern_ops);
CREATE INDEX ON broker.object_upload (created_at);

-- One row a Capsule that ever had a credential set; it outlives the Capsule's lives, so no generation is used twice.
CREATE TABLE broker.credential_inventory (
  capsule_id text PRIMARY KEY CHECK (octet_length(capsule_id) BETWEEN 1 AND 40),
  life integer NOT NULL CHECK (life > 0),
  -- What callers compare; grows with what they can see.
  generation bigint NOT NULL CHECK (generation >= 0),
  -- Grows with every write, re-encryption too; what the anchor counts.
  revision bigint NOT NULL CHECK (revision > 0),
  selected text,
  -- The highest generation that any set of this inventory ever had.
  high bigint NOT NULL CHECK (high >= 0),
  previous text NOT NULL,
  head_kid text NOT NULL,
  head text NOT NULL
);

-- Sets that exist. Every column is authenticated by the envelope, and the envelope by the inventory's head.
CREATE TABLE broker.credential_set (
  set_id text PRIMARY KEY,
  capsule_id text NOT NULL REFERENCES broker.credential_inventory,
  name text NOT NULL,
  form_version integer NOT NULL,
  generation bigint NOT NULL CHECK (generation > 0),
  endpoint text NOT NULL,
  region text NOT NULL,
  bucket text NOT NULL,
  addressing text NOT NULL,
  fingerprint text NOT NULL,
  verified_at bigint NOT NULL,
  created_at bigint NOT NULL,
  rotated_at bigint,
  kid text NOT NULL,
  envelope text NOT NULL,
  UNIQUE (capsule_id, name)
);

-- Sets that are gone: nothing of them but the proof that they were deleted.
CREATE TABLE broker.credential_tombstone (
  set_id text PRIMARY KEY,
  capsule_id text NOT NULL,
  generation bigint NOT NULL,
  retired_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was answered to a create or rotate, for whoever asks again with the same key.
CREATE TABLE broker.credential_request (
  capsule_id text NOT NULL,
  life integer NOT NULL,
  idempotency_key text NOT NULL,
  kid text NOT NULL,
  request text NOT NULL,
  answer text NOT NULL,
  mac text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (capsule_id, life, idempotency_key)
);
CREATE INDEX ON broker.credential_request (at);
