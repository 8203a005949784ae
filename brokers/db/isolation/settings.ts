/** A setting that a server needs so that tenants who do not trust each other can share it. */
export interface Requirement {
  readonly setting: string;
  /** The major version in which the setting was introduced. */
  readonly since?: number;
  /** What is possible without the setting; the end of a sentence with "or else". */
  readonly without: string;
  /** Whether a value, in the setting's own unit, is sufficient. */
  readonly holds: (value: number) => boolean;
  /** A sufficient value, as ALTER SYSTEM accepts it. */
  readonly value: string;
}

const between = (low: number, high: number) => (value: number) => value >= low && value <= high;
const atLeast = (low: number) => (value: number) => value >= low;
/** Switches are read as 0 or 1. */
const isOn = (value: number) => value === 1;

/**
 * `postgres/settings.conf` meets each of them; a server of somebody else's is told by name what it lacks. What a session of
 * the broker sets for itself (`idle_in_transaction_session_timeout`) it cannot ask for.
 */
export const REQUIREMENTS: readonly Requirement[] = [
  {
    setting: 'authentication_timeout',
    without: 'connections that never log in occupy slots for long',
    holds: between(1, 15),
    value: '5s',
  },
  {
    setting: 'tcp_keepalives_idle',
    without: 'sessions of a lost node keep their Assistant from connecting for hours',
    holds: between(1, 120),
    value: '30',
  },
  {
    setting: 'tcp_keepalives_interval',
    without: 'sessions of a lost node keep their Assistant from connecting for long',
    holds: between(1, 30),
    value: '10',
  },
  {
    setting: 'tcp_keepalives_count',
    without: 'sessions of a lost node keep their Assistant from connecting for long',
    holds: between(1, 6),
    value: '3',
  },
  {
    setting: 'tcp_user_timeout',
    without:
      'sessions of a node that was lost in the middle of an answer keep their Assistant from connecting for long',
    holds: between(1, 300_000),
    value: '60s',
  },
  {
    setting: 'client_connection_check_interval',
    without: 'statements continue for clients that have disconnected',
    holds: between(1, 60_000),
    value: '10s',
  },
  {
    setting: 'reserved_connections',
    since: 16,
    without: 'tenants can use all connections, and the broker gets none',
    holds: atLeast(10),
    value: '30',
  },
  {
    setting: 'max_locks_per_transaction',
    without: 'one tenant can fill the lock table before the watch notices it',
    holds: atLeast(256),
    value: '1024',
  },
  {
    setting: 'max_pred_locks_per_transaction',
    without: "one tenant's serializable transactions can block those of others before the watch notices it",
    holds: atLeast(128),
    value: '256',
  },
  {
    setting: 'transaction_timeout',
    since: 17,
    without:
      'transactions may never end while no broker runs (it ends those of tenants that set this for themselves)',
    holds: between(1, 86_400_000),
    value: '1h',
  },
  {
    setting: 'autovacuum',
    without: 'transaction ids run out for all tenants',
    holds: isOn,
    value: 'on',
  },
  {
    setting: 'track_counts',
    without: 'autovacuum does not know which tables need it',
    holds: isOn,
    value: 'on',
  },
  {
    setting: 'autovacuum_freeze_max_age',
    without: 'transaction ids run out before vacuum begins',
    holds: between(100_000, 1_000_000_000),
    value: '200000000',
  },
  {
    setting: 'autovacuum_multixact_freeze_max_age',
    without:
      'one tenant whose sessions lock the same rows fills the disk with pg_multixact, which no quota counts',
    holds: between(10_000, 50_000_000),
    value: '10000000',
  },
  {
    setting: 'max_wal_size',
    without: 'one tenant that writes causes checkpoints all the time, which all tenants wait for',
    holds: atLeast(512),
    value: '1GB',
  },
  {
    setting: 'temp_file_limit',
    without: 'one query fills the disk with temporary files',
    holds: atLeast(0),
    value: '1GB',
  },
  {
    setting: 'max_slot_wal_keep_size',
    without: 'a replication slot without a reader can fill the disk',
    holds: atLeast(0),
    value: '1GB',
  },
  {
    setting: 'max_notify_queue_pages',
    since: 17,
    without: 'notifications that one session does not read take 8 GB of the disk',
    holds: between(64, 131_072),
    value: '65536',
  },
];

/**
 * Sentences about missing settings, each with the SQL that sets them. `settings` contains numbers in each setting's own
 * unit.
 */
export function judgeSettings(version: number, settings: Readonly<Record<string, number>>): string[] {
  return REQUIREMENTS.filter(({ setting, since = 0, holds }) => {
    const value = settings[setting];
    return version >= since * 10_000 && (value === undefined || !holds(value));
  }).map(
    ({ setting, without, value }) =>
      `${setting} should be about ${value}, or else ${without}: ALTER SYSTEM SET ${setting} = '${value}'`,
  );
}
