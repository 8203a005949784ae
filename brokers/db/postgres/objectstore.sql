-- The object-storage broker's role, which may create neither databases nor roles, and owns only its registry.
-- The owner of a server runs this once, as superuser, if the Space has an object store:
--   psql -f objectstore.sql -f objectstore-registry.sql postgres     and then:  \password space_objectstore
-- Running it again changes nothing. The embedded server runs it at every start, one statement at a time: a blank
-- line ends a statement.

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'space_objectstore') THEN
    CREATE ROLE space_objectstore;
  END IF;
END $$;

ALTER ROLE space_objectstore LOGIN NOCREATEROLE NOCREATEDB NOSUPERUSER NOREPLICATION NOBYPASSRLS;

-- The object store may use reserved connections, which tenants cannot take. The role exists from PostgreSQL 16 on.
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_use_reserved_connections') THEN
    GRANT pg_use_reserved_connections TO space_objectstore;
  END IF;
END $$;

