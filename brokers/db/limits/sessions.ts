import { QUEUED } from './notifiers.ts';

/** What a tenant's session uses of resources that all sessions share. */
export interface TenantSession {
  readonly pid: number;
  /** The role's name, which is also the name of its database. */
  readonly role: string;
  readonly locks: number;
  /** Those of its locks that record reads of serializable transactions, including ended ones that are still kept. */
  readonly predicates: number;
  /** The age in seconds of its open transaction; 0 without one. */
  readonly transactionSeconds: number;
  /** Seconds for which it has waited for its client inside a transaction; 0 if it does not wait. */
  readonly idleSeconds: number;
}

/** How full the server's shared structures are. */
export interface ServerState {
  /** The number of locks that fit into the server's table. */
  readonly lockCapacity: number;
  /** How full the table of serializable reads is, from 0 to 1; it includes reads of ended sessions. */
  readonly predicates: number;
  /** How full the notification queue is, from 0 to 1. */
  readonly notifications: number;
  /** The role that fills the queue of notifications, whose sessions are ended first. */
  readonly notifier?: string | undefined;
  /** Row locks with several holders that vacuum has not removed, as a share of what the server should accumulate. */
  readonly rowLocks: number;
}

/**
 * The most that one role may use. A tenant can override each of the server's own timeouts for itself, but none of
 * these.
 */
export interface SessionBounds {
  readonly locks: number;
  readonly transactionSeconds: number;
  readonly idleInTransactionSeconds: number;
}

export type EndReason =
  | 'locks'
  | 'catalogue_locks'
  | 'predicate_locks'
  | 'transaction'
  | 'idle_in_transaction'
  | 'notifications'
  | 'row_locks';

interface End {
  readonly session: TenantSession;
  readonly reason: EndReason;
}

/** If the lock table is fuller than this, the role with the most locks is ended, even within its bound. */
const CROWDED = 0.5;
/** Reads of serializable transactions are kept until every transaction that began before their end has ended. */
const PREDICATES = 0.5;
const SLOW_READER_SECONDS = 5;
/** What vacuum should have removed is kept by an older transaction. Few transactions are as old as this, in seconds. */
const KEEPER_SECONDS = 60;
/** A session with fewer locks is not the reason why the table is full. */
const FEW_LOCKS = 100;

/** Decides which sessions to end, each for one reason. */
export function decideEnds(
  sessions: readonly TenantSession[],
  server: ServerState,
  bounds: SessionBounds,
): End[] {
  const held = new Map<string, number>();
  for (const { role, locks } of sessions) held.set(role, (held.get(role) ?? 0) + locks);
  const total = [...held.values()].reduce((sum, locks) => sum + locks, 0);
  const most = Math.max(0, ...held.values());
  const bound = total > server.lockCapacity * CROWDED ? Math.min(bounds.locks, most - 1) : bounds.locks;
  const reader =
    server.predicates > PREDICATES ? sessions.toSorted((a, b) => b.predicates - a.predicates)[0] : undefined;
  return sessions.flatMap((session) => {
    const greedy = (held.get(session.role) ?? 0) > bound;
    const reason = reasonFor(session, greedy, reader, server, bounds);
    return reason === undefined ? [] : [{ session, reason }];
  });
}

function reasonFor(
  { role, locks, predicates, transactionSeconds, idleSeconds }: TenantSession,
  greedy: boolean,
  /** The session with the most reads, if the table of reads is too full. */
  reader: TenantSession | undefined,
  { notifications, notifier, rowLocks }: ServerState,
  bounds: SessionBounds,
): EndReason | undefined {
  if (greedy && locks >= FEW_LOCKS) return 'locks';
  const old = transactionSeconds > SLOW_READER_SECONDS;
  if (reader !== undefined && (predicates > 0 ? role === reader.role || old : role === reader.role && old))
    return 'predicate_locks';
  if (idleSeconds > bounds.idleInTransactionSeconds) return 'idle_in_transaction';
  if (transactionSeconds > bounds.transactionSeconds) return 'transaction';
  // The notification queue can be shortened only to its slowest reader, a session that stays in a transaction.
  if (notifications > QUEUED && (notifier === undefined ? old : role === notifier)) return 'notifications';
  if (rowLocks > 1 && transactionSeconds > KEEPER_SECONDS) return 'row_locks';
  return undefined;
}
