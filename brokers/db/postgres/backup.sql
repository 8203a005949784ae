-- Records what the backup has, of which the database broker makes metrics. A superuser runs it in the broker's own database, so
-- it uses nothing there that belongs to the broker: the code of a trigger would have a superuser's rights.

DO $$ BEGIN
  IF to_regnamespace('space_backup') IS NULL THEN
    CREATE SCHEMA space_backup;
    CREATE TABLE space_backup.state (since timestamptz NOT NULL DEFAULT now(), copied_at timestamptz, missing text, damaged text);
    INSERT INTO space_backup.state DEFAULT VALUES;
    GRANT USAGE ON SCHEMA space_backup TO space_broker;
    GRANT SELECT ON space_backup.state TO space_broker;
  ELSIF (SELECT nspowner <> current_user::regrole FROM pg_namespace WHERE nspname = 'space_backup') THEN
    RAISE EXCEPTION 'the schema space_backup is another role''s';
  END IF;
  -- Earlier releases did not record it.
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'space_backup.state'::regclass AND attname = 'damaged') THEN
    ALTER TABLE space_backup.state ADD COLUMN damaged text;
  END IF;
END $$;

-- What could not be found out stays. Nothing is written while nothing has changed, since each transaction makes a file of the log.
UPDATE space_backup.state SET copied_at = found.copied_at, missing = found.missing, damaged = found.damaged
  FROM (SELECT coalesce(nullif(current_setting('space.copied'), '')::timestamptz, copied_at) AS copied_at,
    CASE current_setting('space.missing') WHEN 'unknown' THEN missing ELSE nullif(current_setting('space.missing'), '') END AS missing,
    CASE current_setting('space.damaged') WHEN 'unknown' THEN damaged ELSE nullif(current_setting('space.damaged'), '') END AS damaged
    FROM space_backup.state) AS found
  WHERE (state.copied_at, state.missing, state.damaged) IS DISTINCT FROM (found.copied_at, found.missing, found.damaged);
