/**
 * Released: never edited. The registry's epoch: one more with each principal that ends. The bucket remembers the highest,
 * so that a registry which was set back, and believes in principals that ended, shows. And each workload's row says by a MAC
 * that it was this broker that gave that place to that principal.
 */
export const EPOCH = `
  CREATE TABLE broker.epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL DEFAULT 1 CHECK (number > 0)
  );
  INSERT INTO broker.epoch DEFAULT VALUES;

  CREATE FUNCTION broker.next_epoch() RETURNS trigger LANGUAGE plpgsql AS $body$
  BEGIN
    UPDATE broker.epoch SET number = number + 1;
    RETURN NULL;
  END
  $body$;
  CREATE TRIGGER next_epoch AFTER INSERT ON broker.retired_principal
    FOR EACH STATEMENT EXECUTE FUNCTION broker.next_epoch();

  ALTER TABLE broker.workload ADD COLUMN mac bytea CHECK (octet_length(mac) = 32);
`;
