-- The object-storage broker's own database; the broker closes it again when it starts.

CREATE DATABASE space_objectstore OWNER space_objectstore TEMPLATE template0 ENCODING 'UTF8';

REVOKE ALL ON DATABASE space_objectstore FROM PUBLIC;

