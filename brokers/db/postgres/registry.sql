-- The broker's own database: who may do what, never a password. The broker closes it to PUBLIC when it starts.

CREATE DATABASE space_registry OWNER space_broker TEMPLATE template0 ENCODING 'UTF8';

