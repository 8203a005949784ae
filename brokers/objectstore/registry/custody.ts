/** The custody's migration. Released: never edited. Times are milliseconds since 1970, so that rows compare exactly. */
export const CUSTODY_TABLES = `
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
`;
