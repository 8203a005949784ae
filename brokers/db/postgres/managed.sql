-- What the administrator of a provider's PostgreSQL (15 or later), who is no superuser there, runs once before a Space may
-- use it, in the place of the other files here:
--   psql -f managed.sql postgres     and then, in psql:  \password space_broker  \password space_objectstore
-- Settings and log_min_messages are the provider's to set; what of them is missing is in the broker's log.

CREATE ROLE space_broker LOGIN CREATEROLE CREATEDB;

CREATE ROLE space_objectstore LOGIN;

GRANT pg_signal_backend, pg_read_all_stats TO space_broker;

-- The role exists from PostgreSQL 16 on, and some providers keep it for themselves.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_use_reserved_connections') THEN
    GRANT pg_use_reserved_connections TO space_broker, space_objectstore;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'pg_use_reserved_connections is not yours to grant';
END $$;

-- Whoever is in a role may make a database for it.
GRANT space_broker, space_objectstore TO CURRENT_USER;

CREATE DATABASE space_registry OWNER space_broker TEMPLATE template0 ENCODING 'UTF8';

CREATE DATABASE space_objectstore OWNER space_objectstore TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_registry, space_objectstore FROM PUBLIC;

REVOKE space_broker, space_objectstore FROM CURRENT_USER;

-- Where it is yours; what is not goes into postgres.external.acceptOpenDatabases.
REVOKE ALL ON DATABASE postgres FROM PUBLIC;
