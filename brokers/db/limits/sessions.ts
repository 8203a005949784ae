/** What one tenant's session holds of the resources that all share. */
export interface TenantSession {
  readonly pid: number;
  /** Also its database's name. */
  readonly role: string;
  readonly locks: number;
  /** Those of its locks that record reads of serializable transactions, also of ended ones that are still kept. */
  readonly predicates: number;
  /** The age of its open transaction; 0 without one. */
  readonly transactionSeconds: number;
  /** How long it has waited for its client inside a transaction; 0 when it does not. */
  readonly idleSeconds: number;
}

/** How full the server's shared tables are. */
export interface ServerState {
  /** Locks that fit into the server's table. */
  readonly lockCapacity: number;
  /** How full the table of serializable reads is, 0 to 1; it holds those of ended sessions, too. */
  readonly predicates: number;
  /** How full the queue of notifications is, 0 to 1. */
  readonly notifications: number;
  /** Row locks that several hold and that vacuum has not cleared, as a part of what the server should let come together. */
  readonly rowLocks: number;
}

/** The most that one role may hold. A tenant can override each of the server's own timeouts for itself, and none of these. */
export interface SessionBounds {
  readonly locks: number;
  readonly transactionSeconds: number;
  readonly idleInTransactionSeconds: number;
}

export type EndReason =
  | 'locks'
  | 'predicate_locks'
  | 'transaction'
  | 'idle_in_transaction'
  | 'notifications'
  | 'row_locks';

interface End {
  readonly session: TenantSession;
  readonly reason: EndReason;
}

/** When the table of locks is fuller than this, the role with most of it is ended, within its bound or not. */
const CROWDED = 0.5;
/** The queue of notifications is cut behind its slowest reader, who is one that stays in a transaction. */
const QUEUED = 0.5;
/** What serializable transactions have read is forgotten when none is open that began before their end. */
const PREDICATES = 0.5;
const SLOW_READER_SECONDS = 5;
/** What vacuum should have cleared is kept by a transaction that was open before: one so long does it, and few others are. */
const KEEPER_SECONDS = 60;
/** A session with fewer locks is not why the table is full. */
const FEW_LOCKS = 100;

/** Decides which sessions are ended, each for one reason. */
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
  /** The session that has read most, when the table of reads is too full. */
  reader: TenantSession | undefined,
  { notifications, rowLocks }: ServerState,
  bounds: SessionBounds,
): EndReason | undefined {
  if (greedy && locks >= FEW_LOCKS) return 'locks';
  const old = transactionSeconds > SLOW_READER_SECONDS;
  if (reader !== undefined && (predicates > 0 ? role === reader.role || old : role === reader.role && old))
    return 'predicate_locks';
  if (idleSeconds > bounds.idleInTransactionSeconds) return 'idle_in_transaction';
  if (transactionSeconds > bounds.transactionSeconds) return 'transaction';
  if (notifications > QUEUED && old) return 'notifications';
  if (rowLocks > 1 && transactionSeconds > KEEPER_SECONDS) return 'row_locks';
  return undefined;
}
