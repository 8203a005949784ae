-- For a provider's PostgreSQL (15 or later), where you are no superuser: run this once, instead of the other files here,
-- before a Space may use the server:
--   psql -f managed.sql postgres     and then, in psql:  \password space_broker  \password space_objectstore
-- Only the provider can change the server's settings and log_min_messages; the broker's log names those that are missing.

CREATE ROLE space_broker LOGIN CREATEROLE CREATEDB;

CREATE ROLE space_objectstore LOGIN;

GRANT pg_signal_backend, pg_read_all_stats TO space_broker;

-- The role exists from PostgreSQL 16 on, and some providers do not let you grant it.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_use_reserved_connections') THEN
    GRANT pg_use_reserved_connections TO space_broker, space_objectstore;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'pg_use_reserved_connections is not yours to grant';
END $$;

-- A member of a role may create a database that the role owns.
GRANT space_broker, space_objectstore TO CURRENT_USER;

CREATE DATABASE space_registry OWNER space_broker TEMPLATE template0 ENCODING 'UTF8';

CREATE DATABASE space_objectstore OWNER space_objectstore TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_registry, space_objectstore FROM PUBLIC;

REVOKE space_broker, space_objectstore FROM CURRENT_USER;

-- If this database is not yours, name it in postgres.external.acceptOpenDatabases instead.
REVOKE ALL ON DATABASE postgres FROM PUBLIC;

-- A standby copies slots from this database, and a former primary takes up again with what it reads there (pg_rewind). They
-- connect as roles that may read all of the server's files anyway.
DO $$ DECLARE standby name; BEGIN
  FOR standby IN SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND (rolreplication
    OR has_function_privilege(oid, 'pg_read_binary_file(text, bigint, bigint, boolean)', 'EXECUTE'))
  LOOP
    EXECUTE format('GRANT CONNECT ON DATABASE postgres TO %I', standby);
  END LOOP;
END $$;
