import { mutantsOf } from './mutant.ts';

const SESSIONS = { file: 'limits/sessions.test.ts' };
const WATCH = { file: 'limits/watch.test.ts', on: 'on PostgreSQL 17' };
const FULL_TABLE = { file: 'limits/full-table.test.ts' };
const LIMITS = { file: 'limits/limits.test.ts', on: 'on PostgreSQL 17' };
const SHARED = { file: 'limits/shared.test.ts' };
const QUOTA = { file: 'core/quota.test.ts' };
const DRIFT = { file: 'isolation/drift.test.ts' };

/** How much of what all share one tenant may hold. */
export const SHARES = [
  ...mutantsOf('limits/sessions.ts', [
    [
      'no role has more locks than its bound',
      'const greedy = (held.get(session.role) ?? 0) > bound;',
      'const greedy = session.locks > bound;',
      SESSIONS,
      'is sessions of one role that have too many together',
    ],
    [
      'in a crowded table whoever has most gives way',
      'total > server.lockCapacity * CROWDED ? Math.min(bounds.locks, most - 1) : bounds.locks',
      'total > server.lockCapacity * CROWDED ? bounds.locks : bounds.locks',
      SESSIONS,
      'in a crowded table whoever has most',
    ],
    [
      'a session with few locks is left alone',
      "if (greedy && locks >= FEW_LOCKS) return 'locks';",
      "if (greedy) return 'locks';",
      SESSIONS,
      'is sessions of one role that have too many together',
    ],
    [
      'whoever has read most in a crowded table of reads is put out',
      'server.predicates > PREDICATES ? sessions',
      'server.predicates > 1 ? sessions',
      SESSIONS,
      'whoever has read most in a crowded table',
    ],
    [
      'nobody stays idle in a transaction',
      'if (idleSeconds > bounds.idleInTransactionSeconds)',
      'if (idleSeconds < 0)',
      SESSIONS,
      'is an idle one',
    ],
    [
      'no transaction goes on without end',
      'if (transactionSeconds > bounds.transactionSeconds)',
      'if (transactionSeconds < 0)',
      SESSIONS,
      'is an old transaction',
    ],
    [
      'a slow reader of notifications gives way',
      "if (notifications > QUEUED && old) return 'notifications';",
      '',
      SESSIONS,
      'slow readers of a queue that fills',
    ],
  ]),
  ...mutantsOf('limits/watch.ts', [
    [
      'the watch can look though nobody else can log in',
      'await client.query(HOLD);',
      '',
      FULL_TABLE,
      'the watch ends whoever has filled the table of locks',
    ],
    [
      'each look sees what is there now',
      "await client.query('SELECT pg_stat_clear_snapshot()');",
      '',
      WATCH,
      'ends one that waits for its client, whatever the tenant has set',
    ],
    [
      'whoever is not the tenant of a database is left alone',
      'JOIN pg_database d ON d.oid = a.datid AND d.datname = a.usename',
      'JOIN pg_database d ON d.oid = a.datid',
      WATCH,
      'ends nobody else, and goes on when its own session was ended',
    ],
    [
      'who is told to end is ended',
      "await client.query({ name: 'end', text: END, values: [session.pid, session.role] });",
      '',
      WATCH,
      'ends a transaction that is too old, whatever the tenant has set',
    ],
    [
      'the watch begins anew when it was lost',
      'client = undefined;',
      'client = failed;',
      WATCH,
      'ends nobody else, and goes on when its own session was ended',
    ],
  ]),
  ...mutantsOf('limits/capacity.ts', [
    [
      'no more connections are promised than the server has',
      'if (!hasConnections(granted, connections, more))',
      'if (capacity < 0)',
      LIMITS,
      'refuse what the server has no connections for, and nothing else',
    ],
    [
      'who is over the quota makes no more databases',
      "if (row !== undefined && row.door !== 'open')",
      "if (row !== undefined && row.door === 'closed')",
      LIMITS,
      'of bytes put out whoever passes them',
    ],
  ]),
  ...mutantsOf('operations/limit.ts', [
    [
      'a limit of connections is for what is there, too',
      "if (statements.length > 0) await session.run('limit connections', within('cut', statements));",
      '',
      LIMITS,
      'of connections hold for what is there and for what comes',
    ],
  ]),
  ...mutantsOf('limits/sweep.ts', [
    [
      'who is over the quota is put out',
      "if (tightened) await session.run('end sessions', END_SESSIONS, [names]);",
      '',
      LIMITS,
      'of bytes put out whoever passes them',
    ],
    [
      'once more behind the commit, for who came in meanwhile',
      "if (first && tightened) await session.run('end sessions', END_SESSIONS, [names]).catch(() => undefined);",
      '',
      LIMITS,
      'of bytes put out whoever passes them',
    ],
    [
      'doors that somebody else opened are shut again',
      'if (isNews(row, found, state) || !stands(context, own, row, state))',
      'if (isNews(row, found, state))',
      LIMITS,
      'shut out who goes on growing, against drift and by whatever hand it is opened',
    ],
    [
      'what is written into the catalogues of all counts',
      'const charged = Math.ceil((growth / Math.max(1, writers.size)) * wrote);',
      'const charged = Math.ceil((0 * growth / Math.max(1, writers.size)) * wrote);',
      LIMITS,
      'count what a tenant writes into the catalogues of the whole server',
    ],
    [
      'for whoever wrote it',
      'const wrote = own.filter(({ name }) => writers.has(name)).length;',
      'const wrote = own.length + 0 * writers.size;',
      LIMITS,
      'count what a tenant writes into the catalogues of the whole server',
    ],
    [
      'who makes room has one connection',
      "door === 'tidying' ? 1 : (row.connections ?? context.connectionLimit);",
      'row.connections ?? context.connectionLimit * (door.length > 0 ? 1 : 0);',
      LIMITS,
      'of bytes put out whoever passes them',
    ],
  ]),
  ...mutantsOf('limits/shared.ts', [
    [
      'who has only kept a lock has written nothing',
      "AND (a.state = 'active' OR a.state_change >= to_timestamp($1::float8 / 1000))",
      'AND $1::float8 IS NOT NULL',
      SHARED,
      'is not charged to who has only kept a lock since the last look',
    ],
    [
      'of all replicas one sees that the catalogues have grown',
      'Math.max(0, others - before);',
      'before < 0 ? before : 4 * 2 ** 21;',
      SHARED,
      'is charged once, however many replicas look',
    ],
    [
      'what depends on objects counts for whose they are',
      'count(*)::float8 * $1 AS bytes',
      '0 * count(*)::float8 * $1 AS bytes',
      SHARED,
      'is charged to who has it, not to who was in a transaction meanwhile',
    ],
    [
      'settings count for as long as they are stored',
      'sum(pg_column_size(s.setconfig))::float8 AS bytes',
      '0::float8 AS bytes',
      SHARED,
      'is charged for as long as it is stored',
    ],
  ]),
  ...mutantsOf('core/quota.ts', [
    [
      'far over the limit the doors are closed',
      'if (used > limit * HARD + SLACK)',
      'if (used < 0)',
      QUOTA,
      'far beyond its limit is closed',
    ],
    [
      'who grows while it should make room is shut out',
      'if (used > state.ceiling) {',
      'if (used < 0) {',
      QUOTA,
      'that grows is shut out',
    ],
    [
      'for longer each time',
      'FIRST_PAUSE_MS * 2 ** Math.min(state.tries, 10)',
      'FIRST_PAUSE_MS',
      QUOTA,
      'that grows again is shut out for longer',
    ],
    [
      'who is shut out waits',
      'return now < state.until && isSoon ? state : tidying;',
      'return tidying;',
      QUOTA,
      'that is shut out waits',
    ],
    [
      'what was deleted may not be written again',
      'return used + SLACK < state.ceiling ? { ...state, ceiling: used + SLACK } : state;',
      'return state;',
      QUOTA,
      'that makes room may not fill it again',
    ],
  ]),
  ...mutantsOf('isolation/drift.ts', [
    [
      'a power that a role should not have is taken away',
      'if (role.powers.length > 0) {',
      'if (role.powers.length < 0) {',
      DRIFT,
      'mends a power',
    ],
    [
      'so is a membership',
      '...isolation.members.map((member) =>',
      '...isolation.members.slice(1).map((member) =>',
      DRIFT,
      'mends a member',
    ],
    [
      'so is a door for others',
      '.filter((grant) => grant !== wanted)',
      ".filter((grant) => grant !== wanted && !grant.startsWith('PUBLIC'))",
      DRIFT,
      'mends a door for everybody',
    ],
    [
      'a database of somebody else is not touched',
      'database.invalid || !database.ours',
      'database.invalid',
      DRIFT,
      'says that a database of somebody else is lost, and touches nothing',
    ],
    [
      'one over its quota stays shut',
      "const open = login && (isolation.door === 'open' || isolation.door === 'tidying');",
      'const open = login;',
      DRIFT,
      'mends one over its quota that is open',
    ],
  ]),
];
