-- What the owner of a PostgreSQL server (15 or later) runs once, as superuser, before a Space may use it:
--   psql -f bootstrap.sql -f registry.sql postgres     and then, in psql:  \password space_broker
-- Running it again changes nothing. The embedded server runs it at every start, one statement at a time: a blank
-- line ends a statement.

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'space_broker') THEN
    CREATE ROLE space_broker;
  END IF;
END $$;

-- Never superuser. CREATEROLE and CREATEDB are all it takes, since the broker owns every database it makes.
ALTER ROLE space_broker LOGIN CREATEROLE CREATEDB NOSUPERUSER NOREPLICATION NOBYPASSRLS;

-- A drop must be able to end the sessions of the role it takes away.
GRANT pg_signal_backend TO space_broker;

-- It puts out who takes what is everybody's: locks, old transactions, room on the disk. For that it must see them.
GRANT pg_read_all_stats TO space_broker;

-- Whatever tenants do, there is a place left for the broker. The role exists from PostgreSQL 16 on.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_use_reserved_connections') THEN
    GRANT pg_use_reserved_connections TO space_broker;
  END IF;
END $$;

-- What sessions say (errors with values of rows, RAISE LOG) is not for the server's log: it is tenants' data, and theirs to
-- fill a disk with. No tenant may change it; what the server says of itself is logged all the same.
ALTER ROLE ALL SET log_min_messages = fatal;

-- By default every role may connect to these two and list all databases and roles from there.
REVOKE ALL ON DATABASE postgres FROM PUBLIC;

REVOKE ALL ON DATABASE template1 FROM PUBLIC;

