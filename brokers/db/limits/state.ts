import type { ServerState } from './sessions.ts';

export type State = Omit<ServerState, 'notifier'>;

/** Vacuum starts at half of the value that counts as full here. */
export const STATE = `SELECT pg_notification_queue_usage() AS notifications,
    (SELECT max(mxid_age(datminmxid)) FROM pg_database WHERE datconnlimit <> -2) /
      (2 * current_setting('autovacuum_multixact_freeze_max_age')::float8) AS "rowLocks",
    ((SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock') /
      (current_setting('max_pred_locks_per_transaction')::float8 * current_setting('max_connections')::int))::float8 AS predicates,
    current_setting('max_locks_per_transaction')::int *
      (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS "lockCapacity"`;
