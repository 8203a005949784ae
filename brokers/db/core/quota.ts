/** Whether databases of a Capsule accept connections: `tidying` admits one connection, which can delete data. */
export type Door = 'open' | 'tidying' | 'shut' | 'closed';

/** What the sweep stores about a Capsule. */
export interface QuotaState {
  readonly door: Door;
  /** How often its databases have grown while it was admitted to delete data. */
  readonly tries: number;
  /** While `tidying`: if the databases exceed this many bytes, they are shut again. */
  readonly ceiling: number;
  /** While `shut`: the time of the next admission, in milliseconds. */
  readonly until: number;
}

export const OPEN: QuotaState = { door: 'open', tries: 0, ceiling: 0, until: 0 };

/** Bytes that deleting itself may need, for the log of dead rows and for catalogues that grow. */
const SLACK = 16 * 2 ** 20;
/** Above this share of its limit, a Capsule stays shut until an administrator raises the limit. */
const HARD = 1.25;
/** A Capsule is opened completely only below this share, so that it does not alternate. */
const ROOM = 0.95;
/** From this share on, a Capsule counts as near its limit. */
const NEAR = 0.8;
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;

/**
 * Decides about a Capsule that uses so many bytes. PostgreSQL has no setting that forbids writes, permits reads and
 * deletes, and that a tenant cannot override. So a Capsule over its limit gets one connection while its databases do
 * not grow, and no connection for increasing pauses when they do.
 */
export function decideQuota(state: QuotaState, used: number, limit: number, now: number): QuotaState {
  if (used <= limit * (state.door === 'open' ? 1 : ROOM)) return state.door === 'open' ? state : OPEN;
  if (used > limit * HARD + SLACK) return state.door === 'closed' ? state : { ...state, door: 'closed' };
  const tidying: QuotaState = { ...state, door: 'tidying', ceiling: used + SLACK };
  switch (state.door) {
    case 'open':
      return tidying;
    // An administrator has raised the limit.
    case 'closed':
      return { ...tidying, tries: 0 };
    case 'shut': {
      // A pause is never longer than this, so the clock must have been set back since.
      const isSoon = state.until - now <= LONGEST_PAUSE_MS;
      return now < state.until && isSoon ? state : tidying;
    }
    case 'tidying': {
      if (used > state.ceiling) {
        const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(state.tries, 10), LONGEST_PAUSE_MS);
        return { door: 'shut', tries: state.tries + 1, ceiling: 0, until: now + pause };
      }
      // Space that was freed may not be filled again.
      return used + SLACK < state.ceiling ? { ...state, ceiling: used + SLACK } : state;
    }
  }
}

/** Whether a database admits connections, and how many. */
export interface Admits {
  readonly open: boolean;
  readonly connections: number;
}

/** What the quota admits to a database of a workload with this connection limit. */
export function doorsOf(door: Door, connections: number): Admits {
  return { open: door === 'open' || door === 'tidying', connections: door === 'tidying' ? 1 : connections };
}

/** The quota state that callers see. */
export type Standing = 'ok' | 'near' | 'full' | 'closed';

export function standingOf(door: Door, used: number, limit: number): Standing {
  if (door === 'closed') return 'closed';
  if (door !== 'open' || used > limit) return 'full';
  return used >= limit * NEAR ? 'near' : 'ok';
}
