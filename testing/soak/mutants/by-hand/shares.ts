import { mutantsOf } from './mutant.ts';

const LIMITS = { file: 'limits/limits.test.ts', on: 'on PostgreSQL 17' };
const SHARE = { file: 'limits/share.test.ts' };
const SHARED = { file: 'limits/shared.test.ts' };
const QUOTA = { file: 'core/quota.test.ts' };
const DRIFT = { file: 'isolation/drift.test.ts' };

/** Mutations of limits for how much of a shared resource one tenant may use. */
export const SHARES = [
  ...mutantsOf('limits/capacity.ts', [
    [
      'the broker grants no more connections than the server has',
      'if (!hasConnections(granted, connections, more))',
      'if (capacity < 0)',
      LIMITS,
      'refuse only what the server has no connections for',
    ],
    [
      'a tenant over its quota cannot create databases',
      "if (row !== undefined && row.door !== 'open')",
      "if (row !== undefined && row.door === 'closed')",
      LIMITS,
      'of bytes end the sessions of a Capsule above them',
    ],
  ]),
  ...mutantsOf('operations/limit.ts', [
    [
      'a limit of connections applies to existing databases, too',
      "if (statements.length > 0) await session.run('limit connections', within('cut', statements));",
      '',
      LIMITS,
      'of connections apply to existing and new databases',
    ],
    [
      'another limit of connections leaves a tenant that may only delete data its one connection',
      "const ofDatabase = row.door === 'tidying' ? 1 : connections;",
      'const ofDatabase = connections;',
      LIMITS,
      'of bytes end the sessions of a Capsule above them',
    ],
  ]),
  ...mutantsOf('isolation/statements.ts', [
    [
      'of the sessions beyond a lower limit, those that are in use stay',
      "ORDER BY a.state = 'idle', a.backend_start)",
      'ORDER BY a.backend_start)',
      SHARE,
      'a lower limit of connections ends sessions beyond it',
    ],
    [
      'of the sessions beyond a lower limit, older ones stay',
      "ORDER BY a.state = 'idle', a.backend_start)",
      "ORDER BY a.state = 'idle', a.backend_start DESC)",
      SHARE,
      'a lower limit of connections ends sessions beyond it',
    ],
  ]),
  ...mutantsOf('limits/rows.ts', [
    [
      'a database that an administrator has closed stays closed, whatever the quota admits',
      'w.closed OR w.evicting AND NOT d.datallowconn AS held',
      'w.evicting AND NOT d.datallowconn AS held',
      LIMITS,
      'of bytes hold for databases that were closed by an administrator',
    ],
    [
      'a database that an eviction has shut stays shut, whatever the quota admits',
      'w.closed OR w.evicting AND NOT d.datallowconn AS held',
      'w.closed AS held',
      LIMITS,
      'of bytes hold for databases that were closed by an administrator',
    ],
  ]),
  ...mutantsOf('commands.ts', [
    [
      'an administrator who opens a Capsule over its quota leaves its databases shut',
      'const admits = await readAdmits(session, capsule, context.connectionLimit);',
      'const admits = { ...(await readAdmits(session, capsule, context.connectionLimit)), open: true };',
      LIMITS,
      'of bytes hold for databases that were closed by an administrator',
    ],
  ]),
  ...mutantsOf('operations/ensure.ts', [
    [
      'an eviction of a Capsule over its quota leaves its database shut',
      'const admits = await readAdmits(session, workload.capsule, context.connectionLimit);',
      'const admits = { ...(await readAdmits(session, workload.capsule, context.connectionLimit)), open: true };',
      LIMITS,
      'of bytes hold for databases that were closed by an administrator',
    ],
  ]),
  ...mutantsOf('limits/sweep.ts', [
    [
      'the sweep leaves a database alone that an administrator or an eviction has shut',
      'const names = own.filter(({ held }) => !held).map(({ name }) => name);',
      'const names = own.map(({ name }) => name);',
      LIMITS,
      'of bytes hold for databases that were closed by an administrator',
    ],
    [
      'sessions that a broker has left in a shut database are terminated',
      "await session.run('end stayed sessions', END_STAYED);",
      'void END_STAYED;',
      LIMITS,
      'end sessions in a database that was shut, which a broker that died has left there',
    ],
    [
      'sessions of a tenant over its quota are terminated',
      "const tightened = moves && state.door !== 'open';",
      'const tightened = false;',
      LIMITS,
      'of bytes end the sessions of a Capsule above them',
    ],
    [
      'sessions of a tenant over its quota are terminated again after the commit',
      "if (first && tightened) await session.run('end sessions', END_SESSIONS, [names]).catch(() => undefined);",
      '',
      LIMITS,
      'of bytes also end a session that began while its database was being shut',
    ],
    [
      'a database over its quota that somebody else opened is closed again',
      'if (isNews(row, found, state) || !stands(context, own, row, state))',
      'if (isNews(row, found, state))',
      LIMITS,
      'close a Capsule that continues to grow, whoever opens its databases by hand',
    ],
    [
      'growth of the shared catalogues is charged',
      'const charged = Math.ceil((growth / Math.max(1, writers.size)) * wrote);',
      'const charged = Math.ceil((0 * growth / Math.max(1, writers.size)) * wrote);',
      LIMITS,
      'count what a tenant writes into the shared catalogues of the server',
    ],
    [
      'growth of the shared catalogues is charged to those who wrote',
      'const wrote = own.filter(({ name }) => writers.has(name)).length;',
      'const wrote = own.length + 0 * writers.size;',
      LIMITS,
      'count what a tenant writes into the shared catalogues of the server',
    ],
    [
      'a tenant that may only delete data has one connection',
      "door === 'tidying' ? 1 : (row.connections ?? context.connectionLimit);",
      'row.connections ?? context.connectionLimit * (door.length > 0 ? 1 : 0);',
      LIMITS,
      'of bytes end the sessions of a Capsule above them',
    ],
  ]),
  ...mutantsOf('limits/shared.ts', [
    [
      'a session that only keeps a lock is not charged for growth',
      "AND (a.state = 'active' OR a.state_change >= to_timestamp($1::float8 / 1000))",
      'AND $1::float8 IS NOT NULL',
      SHARED,
      'is not charged to a tenant that has only held a lock since the last check',
    ],
    [
      'only one replica charges the growth of the shared catalogues',
      'Math.max(0, others - before);',
      'before < 0 ? before : 4 * 2 ** 21;',
      SHARED,
      'is charged once, however many replicas check',
    ],
    [
      'dependency rows are charged to the owner of their objects',
      'count(*)::float8 * $1 AS bytes',
      '0 * count(*)::float8 * $1 AS bytes',
      SHARED,
      'is charged to its owner, and not to a tenant with a transaction in the meantime',
    ],
    [
      'settings are charged for as long as they are stored',
      'sum(pg_column_size(s.setconfig))::float8 AS bytes',
      '0::float8 AS bytes',
      SHARED,
      'is charged for as long as it is stored',
    ],
  ]),
  ...mutantsOf('core/quota.ts', [
    [
      'a tenant far over its limit is locked out',
      'if (used > limit * HARD + SLACK)',
      'if (used < 0)',
      QUOTA,
      'far beyond its limit is closed',
    ],
    [
      'a tenant that grows while it may only delete data is locked out',
      'if (used > state.ceiling) {',
      'if (used < 0) {',
      QUOTA,
      'that grows is shut out',
    ],
    [
      'a tenant that grows again is locked out for longer each time',
      'FIRST_PAUSE_MS * 2 ** Math.min(state.tries, 10)',
      'FIRST_PAUSE_MS',
      QUOTA,
      'that grows again is shut out for longer',
    ],
    [
      'a tenant that is locked out stays so until its time has passed',
      'return now < state.until && isSoon ? state : tidying;',
      'return tidying;',
      QUOTA,
      'that is shut out waits',
    ],
    [
      'a tenant over its limit cannot write again what it has deleted',
      'return used + SLACK < state.ceiling ? { ...state, ceiling: used + SLACK } : state;',
      'return state;',
      QUOTA,
      'that makes room may not fill it again',
    ],
  ]),
  ...mutantsOf('isolation/drift.ts', [
    [
      'an attribute that a role must not have is removed',
      'if (role.powers.length > 0) {',
      'if (role.powers.length < 0) {',
      DRIFT,
      'repairs a power',
    ],
    [
      'a membership that a role must not have is removed',
      '...isolation.members.map((member) =>',
      '...isolation.members.slice(1).map((member) =>',
      DRIFT,
      'repairs a member',
    ],
    [
      'a grant on a database to others is revoked',
      '.filter((grant) => grant !== wanted)',
      ".filter((grant) => grant !== wanted && !grant.startsWith('PUBLIC'))",
      DRIFT,
      'repairs a door for everybody',
    ],
    [
      'a database that belongs to somebody else is not changed',
      'database.invalid || !database.ours',
      'database.invalid',
      DRIFT,
      'reports that a database of somebody else is lost, and changes nothing',
    ],
    [
      'a database over its quota stays closed',
      "const open = login && (isolation.door === 'open' || isolation.door === 'tidying');",
      'const open = login;',
      DRIFT,
      'repairs one over its quota that is open',
    ],
  ]),
];
