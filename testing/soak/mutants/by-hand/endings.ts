import { mutantsOf } from './mutant.ts';

const SESSIONS = { file: 'limits/sessions.test.ts' };
const WATCH = { file: 'limits/watch.test.ts', on: 'on PostgreSQL 17' };
const FULL_TABLE = { file: 'limits/full-table.test.ts' };
const CATALOGUES = { file: 'limits/catalogue-locks.test.ts' };

/** Mutations of decisions which sessions are ended, since they use too much of what all sessions share. */
export const ENDINGS = [
  ...mutantsOf('limits/sessions.ts', [
    [
      'no role holds more locks than its limit',
      'const greedy = (held.get(session.role) ?? 0) > bound;',
      'const greedy = session.locks > bound;',
      SESSIONS,
      'is sessions of one role that have too many together',
    ],
    [
      'when the lock table is crowded, the role with the most locks loses a session',
      'total > server.lockCapacity * CROWDED ? Math.min(bounds.locks, most - 1) : bounds.locks',
      'total > server.lockCapacity * CROWDED ? bounds.locks : bounds.locks',
      SESSIONS,
      'in a crowded table whoever has most',
    ],
    [
      'a session with few locks is not terminated',
      "if (greedy && locks >= FEW_LOCKS) return 'locks';",
      "if (greedy) return 'locks';",
      SESSIONS,
      'is sessions of one role that have too many together',
    ],
    [
      'when the table of predicate locks is crowded, the session that has read most is terminated',
      'server.predicates > PREDICATES ? sessions',
      'server.predicates > 1 ? sessions',
      SESSIONS,
      'whoever has read most in a crowded table',
    ],
    [
      'a session that is idle in a transaction is terminated',
      'if (idleSeconds > bounds.idleInTransactionSeconds)',
      'if (idleSeconds < 0)',
      SESSIONS,
      'is an idle one',
    ],
    [
      'a transaction that is too old is terminated',
      'if (transactionSeconds > bounds.transactionSeconds)',
      'if (transactionSeconds < 0)',
      SESSIONS,
      'is an old transaction',
    ],
    [
      'a slow reader of notifications is terminated',
      "if (notifications > QUEUED && (notifier === undefined ? old : role === notifier)) return 'notifications';",
      '',
      SESSIONS,
      'slow readers of a queue that fills',
    ],
  ]),
  ...mutantsOf('limits/watch.ts', [
    [
      'each check reads current statistics',
      "await client.query('SELECT pg_stat_clear_snapshot()');",
      '',
      WATCH,
      'ends a transaction that waits for its client, whatever the tenant’s settings',
    ],
    [
      'sessions of others than the tenant are not terminated',
      'JOIN pg_database d ON d.oid = a.datid AND d.datname = a.usename',
      'JOIN pg_database d ON d.oid = a.datid',
      WATCH,
      'ends no other session, and continues after its own session was ended or the server was unavailable',
    ],
    [
      'a session that is to end is terminated',
      "await client.query({ name: 'end', text: END, values: [session.pid, session.role] });",
      '',
      WATCH,
      'ends a transaction that is too old, whatever the tenant’s settings',
    ],
  ]),
  ...mutantsOf('limits/held-session.ts', [
    [
      'the watch can check sessions even if nobody can log in',
      'await client.query(HOLD);',
      '',
      FULL_TABLE,
      'the watch ends the session that has filled the lock table',
    ],
    [
      'the watch opens a new connection after it lost its own',
      'client = undefined;',
      'client = failed;',
      WATCH,
      'ends no other session, and continues after its own session was ended or the server was unavailable',
    ],
  ]),
  ...mutantsOf('limits/glance.ts', [
    [
      'who waits for a shared lock without being a tenant is not kept from it',
      'if (seen?.ownerWaits) await onOwnerWaits();',
      '',
      CATALOGUES,
      "the server's owner is not kept from such a lock",
    ],
  ]),
];
