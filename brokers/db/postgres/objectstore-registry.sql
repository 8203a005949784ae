-- The object-storage broker's own database. The broker revokes the rights of others to it again at each start.

CREATE DATABASE space_objectstore OWNER space_objectstore TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_objectstore FROM PUBLIC;

