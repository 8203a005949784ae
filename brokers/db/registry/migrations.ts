import { applyMigrations, type Connections } from '@space/broker-kit/postgres';
import { AUDIT_TABLE, CAPSULE_TABLES, installationId } from '@space/broker-kit/principals';

/** Each entry is applied once, in order, in one transaction with its number. A released entry is never edited. */
const MIGRATIONS: readonly string[] = [
  `${CAPSULE_TABLES}
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
${AUDIT_TABLE}`,
  `-- Roles of databases that were dropped, which somebody else's grants still name.
  CREATE TABLE broker.leftover_role (
    name text PRIMARY KEY CHECK (octet_length(name) <= 63),
    since timestamptz NOT NULL DEFAULT clock_timestamp()
  );`,
  `ALTER TABLE broker.database
    ADD COLUMN epoch text NOT NULL DEFAULT '',
    ADD COLUMN evicting boolean NOT NULL DEFAULT false;`,
  `-- What is left of audit entries that were kept long enough. Those of the last 30 days nobody deletes.
  CREATE TABLE broker.audit_summary (
    month date NOT NULL,
    operation text NOT NULL,
    authority text NOT NULL,
    outcome text NOT NULL,
    entries bigint NOT NULL,
    PRIMARY KEY (month, operation, authority, outcome)
  );
  CREATE OR REPLACE FUNCTION broker.audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'DELETE' AND TG_LEVEL = 'ROW' THEN
      IF OLD.at < clock_timestamp() - interval '30 days' THEN RETURN OLD; END IF;
    END IF;
    RAISE EXCEPTION 'the audit is append-only';
  END $$;
  DROP TRIGGER append_only ON broker.audit;
  CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON broker.audit
    FOR EACH STATEMENT EXECUTE FUNCTION broker.audit_is_append_only();
  CREATE TRIGGER append_only_for_long BEFORE DELETE ON broker.audit
    FOR EACH ROW EXECUTE FUNCTION broker.audit_is_append_only();`,
  `-- What a Capsule may have, null being the broker's default, and what it was found to hold.
  CREATE TABLE broker.capsule_limits (
    capsule_id text PRIMARY KEY REFERENCES broker.capsule ON DELETE CASCADE,
    database_bytes bigint CHECK (database_bytes > 0),
    connections integer CHECK (connections > 0),
    used_bytes bigint NOT NULL DEFAULT 0,
    door text NOT NULL DEFAULT 'open' CHECK (door IN ('open', 'tidying', 'shut', 'closed')),
    tries integer NOT NULL DEFAULT 0,
    ceiling bigint NOT NULL DEFAULT 0,
    until_ms bigint NOT NULL DEFAULT 0
  );`,
  `-- What its tenants wrote into the catalogues of the whole server, which belong to no database.
  ALTER TABLE broker.capsule_limits ADD COLUMN shared_bytes bigint NOT NULL DEFAULT 0;`,
  `-- Which of several servers has a Capsule, in the registry of the first one. A Capsule of that registry without a row is
  -- the first server's.
  CREATE TABLE broker.placement (
    capsule_id text PRIMARY KEY CHECK (octet_length(capsule_id) BETWEEN 1 AND 40),
    server text NOT NULL,
    moving_to text,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );

  -- Whose each principal is, over all servers, for ever: a server that is away cannot be asked.
  CREATE TABLE broker.placed_principal (
    principal bytea PRIMARY KEY CHECK (octet_length(principal) = 32),
    capsule_id text NOT NULL
  );

  -- A broker that was not told of other servers yet, or no more, makes nothing here for a Capsule that is on one of them. The
  -- lock is that of whoever notes a placement.
  CREATE FUNCTION broker.capsule_is_placed_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.capsule_id, 7305181003));
    IF EXISTS (SELECT FROM broker.placement
               WHERE capsule_id = NEW.capsule_id AND server <> 'main' AND moving_to IS DISTINCT FROM 'main') THEN
      RAISE EXCEPTION 'the Capsule is on another server' USING ERRCODE = '55000';
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER placed_here BEFORE INSERT ON broker.capsule
    FOR EACH ROW EXECUTE FUNCTION broker.capsule_is_placed_here();`,
  `-- A Capsule that is being moved from this server to another one, or was: nothing is done for it here until it comes back.
  CREATE TABLE broker.departure (
    capsule_id text PRIMARY KEY,
    server text NOT NULL,
    attempt text NOT NULL,
    state text NOT NULL CHECK (state IN ('copying', 'landing', 'gone')),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );

  -- A Capsule that is being moved to this server. Until it has landed no other row here is about it.
  CREATE TABLE broker.arrival (
    capsule_id text PRIMARY KEY,
    server text NOT NULL,
    attempt text NOT NULL,
    landed boolean NOT NULL DEFAULT false,
    connections integer NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE TABLE broker.arriving_database (
    name text PRIMARY KEY CHECK (octet_length(name) <= 63),
    capsule_id text NOT NULL REFERENCES broker.arrival ON DELETE CASCADE
  );

  -- Whatever changes a Capsule writes to the audit, in the same transaction and behind the lock of the Capsule. So here ends
  -- what was on its way when the move began, also in a broker that does not know of moves.
  CREATE FUNCTION broker.capsule_has_not_left() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.authority <> 'broker' AND NEW.operation <> 'administrator.move'
      AND EXISTS (SELECT FROM broker.departure WHERE capsule_id = NEW.capsule_id) THEN
      RAISE EXCEPTION 'the Capsule is being moved' USING ERRCODE = '55000';
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER not_left BEFORE INSERT ON broker.audit
    FOR EACH ROW EXECUTE FUNCTION broker.capsule_has_not_left();`,
  `-- What was charged to a Capsule for dead rows in the catalogues of the whole server, and when; it fades.
  ALTER TABLE broker.capsule_limits
    ADD COLUMN written_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN written_ms bigint NOT NULL DEFAULT 0;

  -- The size of these catalogues as some broker saw them last.
  CREATE TABLE broker.shared_catalogues (bytes bigint NOT NULL);
  INSERT INTO broker.shared_catalogues VALUES (0);`,
];

/** The registry version that this broker writes; it upgrades an older registry, and refuses a newer one. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Brings the registry up to date and returns its random installation id, which names of spares contain. */
export function migrate(connections: Connections, space: string): Promise<string> {
  return connections.transaction(async (session) => {
    await applyMigrations(session, MIGRATIONS);
    return installationId(session, space);
  });
}
