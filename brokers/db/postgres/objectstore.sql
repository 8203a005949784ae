-- The object-storage broker's role and its registry, in a database of its own: no power over databases or roles, and
-- no way into the database broker's registry. Run once, as superuser, and then, in psql:  \password space_objectstore
-- The embedded server runs it one statement at a time: a blank line ends a statement.

CREATE ROLE space_objectstore LOGIN NOCREATEROLE NOCREATEDB NOSUPERUSER NOREPLICATION NOBYPASSRLS;

CREATE DATABASE space_objectstore OWNER space_objectstore TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_objectstore FROM PUBLIC;

