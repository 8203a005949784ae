-- The owner of a PostgreSQL server (15 or later) runs this once, as superuser, before a Space may use it:
--   psql -f bootstrap.sql -f registry.sql postgres     and then, in psql:  \password space_broker
-- Running it again changes nothing. The embedded server runs it at every start, one statement at a time: a blank
-- line ends a statement.

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'space_broker') THEN
    CREATE ROLE space_broker;
  END IF;
END $$;

-- The role is never a superuser. CREATEROLE and CREATEDB suffice, since the broker owns every database that it creates.
ALTER ROLE space_broker LOGIN CREATEROLE CREATEDB NOSUPERUSER NOREPLICATION NOBYPASSRLS;

-- A drop must be able to end the sessions of the role that it removes.
GRANT pg_signal_backend TO space_broker;

-- The broker's watch ends sessions that use too much of shared resources, and needs the statistics of all sessions for that.
GRANT pg_read_all_stats TO space_broker;

-- The broker may use reserved connections, which tenants cannot take. The role exists from PostgreSQL 16 on.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_use_reserved_connections') THEN
    GRANT pg_use_reserved_connections TO space_broker;
  END IF;
END $$;

-- Messages of sessions (errors with values of rows, RAISE LOG) do not go to the server's log: they contain tenants' data, and a
-- tenant could fill the disk with them. No tenant may change this setting. Messages of the server itself are still logged.
ALTER ROLE ALL SET log_min_messages = fatal;

-- By default every role may connect to these two and list all databases and roles from there.
REVOKE ALL ON DATABASE postgres FROM PUBLIC;

-- A standby copies slots from this database, and a former primary takes up again with what it reads there (pg_rewind). They
-- connect as roles that may read all of the server's files anyway. Run this file again after such a role was created.
DO $$ DECLARE standby name; BEGIN
  FOR standby IN SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND (rolreplication
    OR has_function_privilege(oid, 'pg_read_binary_file(text, bigint, bigint, boolean)', 'EXECUTE'))
  LOOP
    EXECUTE format('GRANT CONNECT ON DATABASE postgres TO %I', standby);
  END LOOP;
END $$;

REVOKE ALL ON DATABASE template1 FROM PUBLIC;

