-- The broker's own database: who may do what, never a password. The broker closes it again
-- when it starts.

CREATE DATABASE space_registry OWNER space_broker TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_registry FROM PUBLIC;

