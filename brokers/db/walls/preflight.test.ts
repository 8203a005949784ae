import { describe, expect, it } from 'vitest';
import { judge, requireSafe, type ServerFacts } from './preflight.ts';

const safe: ServerFacts = {
  version: 170_010,
  standby: false,
  superuser: false,
  createRole: true,
  createDatabase: true,
  signalBackend: true,
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
    ['no CREATEROLE', { createRole: false }, /CREATEROLE/],
    ['no CREATEDB', { createDatabase: false }, /CREATEDB/],
    ['no pg_signal_backend', { signalBackend: false }, /pg_signal_backend/],
    ['an open database', { openDatabases: ['crm', 'postgres'] }, /crm, postgres/],
  ])('refuses %s', (_, change, sentence) => {
    const findings = judge({ ...safe, ...change }, []);
    expect(findings.refusals).toHaveLength(1);
    expect(() => requireSafe(findings)).toThrow(sentence);
  });

  it('warns of what was accepted and of what delays a drop', () => {
    const findings = judge({ ...safe, preparedTransactions: 2, openDatabases: ['crm'] }, ['crm']);
    expect(findings.refusals).toEqual([]);
    expect(findings.warnings).toHaveLength(2);
  });
});
