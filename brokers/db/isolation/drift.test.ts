import { describe, expect, it } from 'vitest';
import { decideRepairs, type Isolation } from './drift.ts';

const NAME = `spc_${'a'.repeat(40)}`;
const right: Isolation = {
  name: NAME,
  closed: false,
  evicting: false,
  door: 'open',
  connections: null,
  role: { login: true, powers: [], inherit: false, limit: 5, expires: false },
  memberOf: [],
  members: [],
  database: {
    invalid: false,
    open: true,
    limit: 5,
    ours: true,
    grants: [`${NAME}:CONNECT,CREATE,TEMPORARY`],
  },
};
const role = (change: Partial<NonNullable<Isolation['role']>>): Isolation => ({
  ...right,
  role: { ...right.role!, ...change },
});
const database = (change: Partial<NonNullable<Isolation['database']>>): Isolation => ({
  ...right,
  database: { ...right.database!, ...change },
});

describe('drift', () => {
  it('is empty if everything is as registered', () => {
    expect(decideRepairs(right, 5)).toEqual([]);
  });

  it('leaves a database shut whose sessions are being ended', () => {
    expect(decideRepairs({ ...database({ open: false }), evicting: true }, 5)).toEqual([]);
  });

  it.each<[string, Isolation, string, RegExp]>([
    [
      'a role that may not log in',
      role({ login: false }),
      'role',
      /^ALTER ROLE spc_a+ LOGIN NOINHERIT CONNECTION LIMIT 5 /,
    ],
    ['another connection limit', role({ limit: -1 }), 'role', /CONNECTION LIMIT 5/],
    ['a role that expires', role({ expires: true }), 'role', /VALID UNTIL 'infinity'/],
    ['a power', role({ powers: ['NOCREATEDB', 'NOBYPASSRLS'] }), 'powers', / NOCREATEDB NOBYPASSRLS$/],
    [
      'a membership',
      { ...right, memberOf: ['pg_read_all_data'] },
      'membership',
      /^REVOKE "pg_read_all_data" FROM spc_/,
    ],
    ['a member', { ...right, members: ['a"b'] }, 'membership', /^REVOKE spc_a+ FROM "a""b"$/],
    [
      'a door for everybody',
      database({ grants: [`${NAME}:CONNECT,CREATE,TEMPORARY`, 'PUBLIC:CONNECT'] }),
      'grants',
      /FROM PUBLIC CASCADE/,
    ],
    [
      'a door for a stranger',
      database({ grants: ['stranger:CONNECT'] }),
      'grants',
      /FROM "stranger" CASCADE/,
    ],
    ['no door at all', database({ grants: [] }), 'grants', /^GRANT CONNECT, CREATE, TEMPORARY/],
    ['a door that is shut', database({ open: false }), 'limits', /ALLOW_CONNECTIONS true/],
    ['a closed one that is open', { ...right, closed: true }, 'limits', /ALLOW_CONNECTIONS false/],
    ['one over its quota that is open', { ...right, door: 'shut' }, 'limits', /ALLOW_CONNECTIONS false/],
    [
      'one that makes room with more than one connection',
      { ...right, door: 'tidying' },
      'limits',
      /ALLOW_CONNECTIONS true CONNECTION LIMIT 1$/,
    ],
    ["another limit than its Capsule's", { ...right, connections: 7 }, 'role', /CONNECTION LIMIT 7 /],
  ])('repairs %s', (_, isolation, kind, statement) => {
    const repair = decideRepairs(isolation, 5).find((one) => one.kind === kind);
    expect(repair?.statements.join('\n')).toMatch(new RegExp(statement.source, 'm'));
  });

  it.each<[string, Isolation]>([
    ['a role that is gone', { ...right, role: null }],
    ['a database that is gone', { ...right, database: null }],
    ['an interrupted drop', database({ invalid: true })],
    ['a database of somebody else', database({ ours: false })],
  ])('reports that %s is lost, and changes nothing', (_, isolation) => {
    expect(decideRepairs(isolation, 5)).toEqual([{ kind: 'lost', statements: [] }]);
  });
});
