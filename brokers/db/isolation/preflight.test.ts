import { describe, expect, it } from 'vitest';
import { judge, requireSafe, type ServerFacts } from './preflight.ts';
import { REQUIREMENTS } from './settings.ts';

/** Of PostgreSQL's own. */
const DEFAULTS: Readonly<Record<string, number>> = {
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
};

const safe: ServerFacts = {
  role: 'space_broker',
  version: 170_010,
  standby: false,
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
  },
  logsSessions: false,
  preparedTransactions: 0,
  openDatabases: [],
};

describe('preflight', () => {
  it('lets a safe server pass', () => {
    const findings = judge(safe, []);
    expect(findings).toEqual({ refusals: [], warnings: [] });
    expect(() => requireSafe(findings)).not.toThrow();
  });

  it.each<[string, Partial<ServerFacts>, RegExp]>([
    ['PostgreSQL 14', { version: 140_020 }, /15 or later/],
    ['a standby', { standby: true }, /standby/],
    ['a superuser', { superuser: true }, /superuser/],
    [
      'a member of a superuser',
      { superuserGroups: ['ad"min'] },
      /superuser ad"min: REVOKE "ad""min" FROM "space_broker"/,
    ],
    ['no CREATEROLE', { createRole: false }, /ALTER ROLE "space_broker" CREATEROLE/],
    ['no CREATEDB', { createDatabase: false }, /ALTER ROLE "space_broker" CREATEDB/],
    ['no pg_signal_backend', { signalBackend: false }, /GRANT pg_signal_backend TO "space_broker"/],
    ['an open database', { openDatabases: ['crm', 'postgres'] }, /crm, postgres/],
  ])('refuses %s', (_, change, sentence) => {
    const findings = judge({ ...safe, ...change }, []);
    expect(findings.refusals).toHaveLength(1);
    expect(() => requireSafe(findings)).toThrow(sentence);
  });

  it.each<[string, Partial<ServerFacts>, RegExp]>([
    ['prepared transactions', { preparedTransactions: 2 }, /ALTER SYSTEM SET max_prepared_transactions = 0$/],
    ['no pg_read_all_stats', { readAllStats: false }, /GRANT pg_read_all_stats TO "space_broker"$/],
    ['a log of what tenants say', { logsSessions: true }, /: ALTER ROLE ALL SET log_min_messages = fatal$/],
    ['no way to the reserve', { mayUseReserved: false }, /GRANT pg_use_reserved_connections TO/],
    ...REQUIREMENTS.map(({ setting, value }): [string, Partial<ServerFacts>, RegExp] => [
      `${setting} as PostgreSQL has it by itself`,
      { settings: { ...safe.settings, [setting]: DEFAULTS[setting] ?? Number.NaN } },
      new RegExp(`^${setting} should be .* ALTER SYSTEM SET ${setting} = '${value}'$`),
    ]),
  ])('warns of %s and says the SQL that mends it', (_, change, sentence) => {
    const { refusals, warnings } = judge({ ...safe, ...change }, []);
    expect(refusals).toEqual([]);
    expect(warnings).toEqual([expect.stringMatching(sentence)]);
  });

  it('asks no server for what its version does not have', () => {
    const { reserved_connections: _, max_notify_queue_pages: __, ...settings } = safe.settings;
    expect(judge({ ...safe, version: 150_010, settings }, []).warnings).toEqual([]);
    expect(judge({ ...safe, version: 160_010, settings }, []).warnings).toHaveLength(1);
  });

  it('warns of what was accepted and of what delays a drop', () => {
    const findings = judge({ ...safe, preparedTransactions: 2, openDatabases: ['crm'] }, ['crm']);
    expect(findings.refusals).toEqual([]);
    expect(findings.warnings).toHaveLength(2);
  });
});
