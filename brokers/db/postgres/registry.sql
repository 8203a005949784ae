-- The broker's own database, which records who may do what and contains no password. The broker revokes the rights of
-- others to it again at each start.

CREATE DATABASE space_registry OWNER space_broker TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_registry FROM PUBLIC;

