import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideEnds, type ServerState, type SessionBounds, type TenantSession } from './sessions.ts';

const bounds: SessionBounds = { locks: 1_000, transactionSeconds: 600, idleInTransactionSeconds: 60 };
const server: ServerState = { lockCapacity: 10_000, predicates: 0, notifications: 0, rowLocks: 0 };
const session = (change: Partial<TenantSession> = {}): TenantSession => ({
  pid: 1,
  role: 'a',
  locks: 0,
  predicates: 0,
  transactionSeconds: 0,
  idleSeconds: 0,
  ...change,
});

describe('a session that is ended', () => {
  it.each<[string, TenantSession[], Partial<ServerState>, [number, string][]]>([
    [
      'nobody within bounds',
      [session({ locks: 1_000, transactionSeconds: 600, idleSeconds: 60 })],
      { notifications: 0.5 },
      [],
    ],
    ['a session with too many locks', [session({ locks: 1_001 })], {}, [[1, 'locks']]],
    [
      'sessions of one role that have too many together, but not one that has few',
      [session({ locks: 600 }), session({ pid: 2, locks: 500 }), session({ pid: 3, locks: 99 })],
      {},
      [
        [1, 'locks'],
        [2, 'locks'],
      ],
    ],
    [
      'in a crowded table whoever has most, within the bound or not',
      [session({ locks: 900 }), session({ pid: 2, role: 'b', locks: 800 })],
      { lockCapacity: 2_000 },
      [[1, 'locks']],
    ],
    [
      'whoever has read most in a crowded table of what was read, and whose open transaction keeps it so',
      [
        session({ predicates: 90 }),
        session({ pid: 2, predicates: 1 }),
        session({ pid: 3, transactionSeconds: 6 }),
        session({ pid: 4, role: 'b', predicates: 9, transactionSeconds: 5 }),
        session({ pid: 5, role: 'b', predicates: 9, transactionSeconds: 6 }),
        session({ pid: 6, role: 'b', transactionSeconds: 6 }),
      ],
      { predicates: 0.51 },
      [
        [1, 'predicate_locks'],
        [2, 'predicate_locks'],
        [3, 'predicate_locks'],
        [5, 'predicate_locks'],
      ],
    ],
    ['nobody where the table is half full', [session({ locks: 900 })], { lockCapacity: 1_800 }, []],
    [
      'every session with a hundred locks, where its role has too many',
      [session({ locks: 1_000 }), session({ pid: 2, locks: 100 })],
      {},
      [
        [1, 'locks'],
        [2, 'locks'],
      ],
    ],
    [
      'nobody where the table of what was read is half full',
      [session({ predicates: 90 })],
      { predicates: 0.5 },
      [],
    ],
    [
      'whoever has read most, whoever comes first, and no new transaction of theirs that has read nothing',
      [
        session({ role: 'b', predicates: 1 }),
        session({ pid: 2, predicates: 90 }),
        session({ pid: 3, transactionSeconds: 5 }),
      ],
      { predicates: 0.51 },
      [[2, 'predicate_locks']],
    ],
    [
      'nobody where as many row locks are left as may be',
      [session({ transactionSeconds: 61 })],
      { rowLocks: 1 },
      [],
    ],
    ['an old transaction', [session({ transactionSeconds: 601 })], {}, [[1, 'transaction']]],
    ['an idle one', [session({ transactionSeconds: 61, idleSeconds: 61 })], {}, [[1, 'idle_in_transaction']]],
    [
      'slow readers of a queue that fills',
      [session({ transactionSeconds: 6 }), session({ pid: 2, transactionSeconds: 5 })],
      { notifications: 0.51 },
      [[1, 'notifications']],
    ],
    [
      'whoever fills the queue, where that is known, and nobody else',
      [session({ transactionSeconds: 60 }), session({ pid: 2, role: 'b', transactionSeconds: 0.1 })],
      { notifications: 0.51, notifier: 'b' },
      [[2, 'notifications']],
    ],
    [
      'whoever keeps vacuum from clearing row locks',
      [session({ transactionSeconds: 61 }), session({ pid: 2, transactionSeconds: 60 })],
      { rowLocks: 1.01 },
      [[1, 'row_locks']],
    ],
  ])('is %s', (_, sessions, state, ends) => {
    const decided = decideEnds(sessions, { ...server, ...state }, bounds);
    expect(decided.map((end) => [end.session.pid, end.reason])).toEqual(ends);
  });

  it('leaves no role more than its limit, except in sessions with few locks', () => {
    const some = fc.record({
      pid: fc.nat(),
      role: fc.constantFrom('a', 'b', 'c'),
      locks: fc.nat(5_000),
      predicates: fc.constant(0),
      transactionSeconds: fc.constant(0),
      idleSeconds: fc.constant(0),
    });
    fc.assert(
      fc.property(fc.array(some), (sessions) => {
        const ended = new Set(decideEnds(sessions, server, bounds).map((end) => end.session));
        const few = sessions.length * 99;
        const left = sessions.filter((one) => !ended.has(one));
        for (const role of ['a', 'b', 'c']) {
          const held = left.filter((one) => one.role === role).reduce((sum, { locks }) => sum + locks, 0);
          expect(held).toBeLessThanOrEqual(bounds.locks + few);
        }
      }),
    );
  });
});
