import { AUDIT_TABLE, CAPSULE_TABLES } from '@space/broker-kit/principals';

/** Released: never edited. */
export const PRINCIPALS = `
  ${CAPSULE_TABLES}

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
  ${AUDIT_TABLE}`;

/**
 * Released: never edited. The registry's epoch: one more with each principal that ends. The bucket remembers the highest,
 * so that a registry which was set back, and believes in principals that ended, shows. And each workload's row says by a MAC
 * that it was this broker that gave that place to that principal.
 */
export const EPOCH = `
  CREATE TABLE broker.epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL DEFAULT 1 CHECK (number > 0)
  );
  INSERT INTO broker.epoch DEFAULT VALUES;

  CREATE FUNCTION broker.next_epoch() RETURNS trigger LANGUAGE plpgsql AS $body$
  BEGIN
    UPDATE broker.epoch SET number = number + 1;
    RETURN NULL;
  END
  $body$;
  CREATE TRIGGER next_epoch AFTER INSERT ON broker.retired_principal
    FOR EACH STATEMENT EXECUTE FUNCTION broker.next_epoch();

  ALTER TABLE broker.workload ADD COLUMN mac bytea CHECK (octet_length(mac) = 32);
`;

/**
 * Released: never edited. A Capsule's principal, life and place are bound by a MAC as those of its workloads are; it is of no
 * meaning once the principal is retired.
 */
export const CAPSULE_MAC = `
  ALTER TABLE broker.store ADD COLUMN mac bytea CHECK (octet_length(mac) = 32);
`;
