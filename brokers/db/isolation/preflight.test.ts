import { describe, expect, it } from 'vitest';
import { judge, requireSafe, type ServerFacts } from './preflight.ts';
import { REQUIREMENTS } from './settings.ts';

/** PostgreSQL's own, or, where those are good, what somebody may have set. */
const WRONG: Readonly<Record<string, number>> = {
  authentication_timeout: 60,
  tcp_keepalives_idle: 0,
  tcp_keepalives_interval: 0,
  tcp_keepalives_count: 0,
  client_connection_check_interval: 0,
  reserved_connections: 0,
  max_locks_per_transaction: 64,
  max_pred_locks_per_transaction: 64,
  temp_file_limit: -1,
  max_slot_wal_keep_size: -1,
  max_notify_queue_pages: 1_048_576,
  tcp_user_timeout: 0,
  transaction_timeout: 0,
  autovacuum: 0,
  track_counts: 0,
  autovacuum_freeze_max_age: 2_000_000_000,
  autovacuum_multixact_freeze_max_age: 400_000_000,
  max_wal_size: 64,
};

const safe: ServerFacts = {
  role: 'space_broker',
  version: 170_010,
  standby: false,
  readOnly: false,
  pooled: false,
  registry: { name: 'space_registry', owned: true },
  ownConnections: [-1, -1],
  connections: { max: 200, kept: 35 },
  superuser: false,
  createRole: true,
  createDatabase: true,
  signalBackend: true,
  superuserGroups: [],
  readAllStats: true,
  mayUseReserved: true,
  settings: {
    authentication_timeout: 5,
    tcp_keepalives_idle: 30,
    tcp_keepalives_interval: 10,
    tcp_keepalives_count: 3,
    client_connection_check_interval: 10_000,
    reserved_connections: 30,
    max_locks_per_transaction: 512,
    max_pred_locks_per_transaction: 256,
    temp_file_limit: 1_048_576,
    max_slot_wal_keep_size: 1_024,
    max_notify_queue_pages: 65_536,
    tcp_user_timeout: 60_000,
    transaction_timeout: 3_600_000,
    autovacuum: 1,
    track_counts: 1,
    autovacuum_freeze_max_age: 200_000_000,
    autovacuum_multixact_freeze_max_age: 10_000_000,
    max_wal_size: 1_024,
  },
  logsSessions: false,
  preparedTransactions: 0,
  openDatabases: [],
};

const WANTED = { acceptedOpen: [], connections: 5 };

describe('preflight', () => {
  it('accepts a safe server', () => {
    const findings = judge(safe, WANTED);
    expect(findings).toEqual({ refusals: [], warnings: [] });
    expect(() => requireSafe(findings)).not.toThrow();
  });

  it.each<[string, Partial<ServerFacts>, RegExp]>([
    ['PostgreSQL 14', { version: 140_020 }, /15 or later is needed, and this is 14: upgrade it/],
    ['a standby', { standby: true, readOnly: true }, /standby: name the primary/],
    ['a server that takes no writes', { readOnly: true }, /RESET default_transaction_read_only/],
    ['a pool of connections', { pooled: true }, /connection pooler .*: name the server itself/],
    [
      'too few connections',
      { connections: { max: 39, kept: 35 } },
      /max_connections is 39, of which 35 .* may have 5: ALTER SYSTEM SET max_connections/,
    ],
    [
      'too few for its role',
      { ownConnections: [11, -1] },
      /its role may have 11: ALTER ROLE "space_broker" CONNECTION LIMIT -1/,
    ],
    [
      'too few to its registry',
      { ownConnections: [-1, 0] },
      /allows 0: ALTER DATABASE "space_registry" CONNECTION LIMIT -1/,
    ],
    [
      'a registry of somebody else',
      { registry: { name: 'space_registry', owned: false } },
      /ALTER DATABASE "space_registry" OWNER TO "space_broker"/,
    ],
    ['a superuser', { superuser: true }, /superuser/],
    [
      'a member of a superuser',
      { superuserGroups: ['ad"min'] },
      /superuser ad"min: REVOKE "ad""min" FROM "space_broker"/,
    ],
    ['no CREATEROLE', { createRole: false }, /ALTER ROLE "space_broker" CREATEROLE/],
    ['no CREATEDB', { createDatabase: false }, /ALTER ROLE "space_broker" CREATEDB/],
    ['no pg_signal_backend', { signalBackend: false }, /GRANT pg_signal_backend TO "space_broker"/],
    [
      'an open database',
      { openDatabases: ['crm', 'postgres'] },
      /crm, postgres: REVOKE CONNECT ON DATABASE "crm" FROM PUBLIC; .*acceptOpenDatabases/,
    ],
  ])('refuses %s', (_, change, sentence) => {
    const findings = judge({ ...safe, ...change }, WANTED);
    expect(findings.refusals).toHaveLength(1);
    expect(() => requireSafe(findings)).toThrow(sentence);
  });

  it.each<[string, Partial<ServerFacts>, RegExp]>([
    ['a version that nobody tried', { version: 190_000 }, /later than 18 was not tested/],
    [
      'prepared transactions',
      { preparedTransactions: 2 },
      /table of locks.*SET max_prepared_transactions = 0$/,
    ],
    ['no pg_read_all_stats', { readAllStats: false }, /GRANT pg_read_all_stats TO "space_broker"$/],
    ['a log of what tenants say', { logsSessions: true }, /: ALTER ROLE ALL SET log_min_messages = fatal$/],
    ['no way to the reserve', { mayUseReserved: false }, /GRANT pg_use_reserved_connections TO/],
    ...REQUIREMENTS.map(({ setting, value }): [string, Partial<ServerFacts>, RegExp] => [
      `${setting} that is missing or wrong`,
      { settings: { ...safe.settings, [setting]: WRONG[setting] ?? Number.NaN } },
      new RegExp(`^${setting} should be .* ALTER SYSTEM SET ${setting} = '${value}'$`),
    ]),
  ])('warns of %s with the SQL that repairs it', (_, change, sentence) => {
    const { refusals, warnings } = judge({ ...safe, ...change }, WANTED);
    expect(refusals).toEqual([]);
    expect(warnings).toEqual([expect.stringMatching(sentence)]);
  });

  it('requires of no server what its version does not have', () => {
    const { reserved_connections: _, max_notify_queue_pages: __, ...settings } = safe.settings;
    expect(judge({ ...safe, version: 150_010, settings }, WANTED).warnings).toEqual([]);
    expect(judge({ ...safe, version: 160_010, settings }, WANTED).warnings).toHaveLength(1);
  });

  it('warns of what was accepted and of what delays a drop', () => {
    const findings = judge(
      { ...safe, preparedTransactions: 2, openDatabases: ['crm'] },
      {
        ...WANTED,
        acceptedOpen: ['crm'],
      },
    );
    expect(findings.refusals).toEqual([]);
    expect(findings.warnings).toHaveLength(2);
  });
});
