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
