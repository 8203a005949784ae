/** How far the databases of a Capsule are open: `tidying` lets one connection in, so that room can be made. */
export type Door = 'open' | 'tidying' | 'shut' | 'closed';

/** What the sweep remembers of a Capsule. */
export interface QuotaState {
  readonly door: Door;
  /** How often it went on growing when it was let in to make room. */
  readonly tries: number;
  /** While `tidying`: more than this, and it is shut out again. */
  readonly ceiling: number;
  /** Milliseconds; while `shut`: when it is let in again. */
  readonly until: number;
}

export const OPEN: QuotaState = { door: 'open', tries: 0, ceiling: 0, until: 0 };

/** Deleting takes some space itself: for the log of dead rows, and for catalogues that grow. */
const SLACK = 16 * 2 ** 20;
/** Beyond this share over its limit, only an administrator opens it again, by raising the limit. */
const HARD = 1.25;
/** Opened wide again only below this share, so that it does not flap. */
const ROOM = 0.95;
/** A Capsule is said to be near its limit from this share on. */
const NEAR = 0.8;
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;

/**
 * What becomes of a Capsule that holds so many bytes. Nothing that a tenant cannot override closes writes and leaves
 * reading and deleting possible, so who is over the limit gets one connection for as long as what it holds does not grow,
 * and none for longer and longer pauses when it does.
 */
export function decideQuota(state: QuotaState, used: number, limit: number, now: number): QuotaState {
  if (used <= limit * (state.door === 'open' ? 1 : ROOM)) return state.door === 'open' ? state : OPEN;
  if (used > limit * HARD + SLACK) return state.door === 'closed' ? state : { ...state, door: 'closed' };
  const tidying: QuotaState = { ...state, door: 'tidying', ceiling: used + SLACK };
  switch (state.door) {
    case 'open':
      return tidying;
    // The limit was raised meanwhile.
    case 'closed':
      return { ...tidying, tries: 0 };
    case 'shut': {
      // No pause is longer: the clock was set back since.
      const isSoon = state.until - now <= LONGEST_PAUSE_MS;
      return now < state.until && isSoon ? state : tidying;
    }
    case 'tidying': {
      if (used > state.ceiling) {
        const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(state.tries, 10), LONGEST_PAUSE_MS);
        return { door: 'shut', tries: state.tries + 1, ceiling: 0, until: now + pause };
      }
      // What was deleted may not be written again.
      return used + SLACK < state.ceiling ? { ...state, ceiling: used + SLACK } : state;
    }
  }
}

/** What a door is to a database: whether anybody comes in, and how many of those that its workload may be. */
export function doorsOf(
  door: Door,
  connections: number,
): { readonly open: boolean; readonly connections: number } {
  return { open: door === 'open' || door === 'tidying', connections: door === 'tidying' ? 1 : connections };
}

/** The quota state that callers see. */
export type Standing = 'ok' | 'near' | 'full' | 'closed';

export function standingOf(door: Door, used: number, limit: number): Standing {
  if (door === 'closed') return 'closed';
  if (door !== 'open' || used > limit) return 'full';
  return used >= limit * NEAR ? 'near' : 'ok';
}
