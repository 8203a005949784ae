/** Released: never edited. An open upload is in the Space's bucket (null) or in that of one of the Capsule's sets. */
export const UPLOAD_SETS = 'ALTER TABLE broker.object_upload ADD COLUMN credential_set text';

/**
 * Released: never edited. Bytes of writes that nobody can tell to be stored or not; and how much of an upload's bytes
 * is such. Sums over a Capsule's uploads have an index of their own.
 */
export const DOUBT = `
  CREATE TABLE broker.object_doubt (
    place text NOT NULL REFERENCES broker.object_usage ON DELETE CASCADE,
    -- Whole minutes.
    certain_at timestamptz NOT NULL,
    bytes bigint NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (place, certain_at)
  );

  ALTER TABLE broker.object_upload ADD COLUMN doubted bigint NOT NULL DEFAULT 0 CHECK (doubted >= 0);
  CREATE INDEX ON broker.object_upload (place) INCLUDE (bytes);
`;

/**
 * Released: never edited. What deleted and overwritten objects give back before the next count: the sum, good for the count
 * that it is of and no other, and the objects that are in it.
 */
export const CREDITS = `
  ALTER TABLE broker.object_usage
    ADD COLUMN credited bigint NOT NULL DEFAULT 0 CHECK (credited >= 0),
    ADD COLUMN credited_objects integer NOT NULL DEFAULT 0 CHECK (credited_objects >= 0),
    ADD COLUMN credited_in integer NOT NULL DEFAULT 0;

  CREATE TABLE broker.object_credit (
    place text NOT NULL REFERENCES broker.object_usage ON DELETE CASCADE,
    count_number integer NOT NULL,
    object bytea NOT NULL CHECK (octet_length(object) = 32),
    PRIMARY KEY (place, count_number, object)
  );
`;

/**
 * Released: never edited. Which upload a request is ending, since when, and the id that the S3 server may have given it for
 * that.
 */
export const UPLOAD_ENDS = `
  ALTER TABLE broker.object_upload ADD COLUMN ending_as text, ADD COLUMN ending_since timestamptz;
`;

/** Released: never edited. Whether an upload was to be aborted, so that it is not completed, whatever became of that. */
export const UPLOAD_ABORTS = `
  ALTER TABLE broker.object_upload ADD COLUMN aborted boolean NOT NULL DEFAULT false;
`;

/** Released: never edited. What counts against quotas; `quota/rows.ts` says how. */
export const USAGE = `
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
`;
