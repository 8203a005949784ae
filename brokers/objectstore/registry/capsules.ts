/**
 * Released: never edited. A Capsule's principal, life and place are bound by a MAC as those of its workloads are; it is of no
 * meaning once the principal is retired.
 */
export const CAPSULE_MAC = `
  ALTER TABLE broker.store ADD COLUMN mac bytea CHECK (octet_length(mac) = 32);
`;
