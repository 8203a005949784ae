import { SharedSlots } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';

/**
 * How many connections of each kind the broker has, and how many of them one Capsule may use: after its first one only
 * fewer than are free, so that two Capsules whose requests all wait leave one to a third.
 */
export const SHARES = {
  work: { total: 5, perKey: 3, ofFree: 1, queued: 256, waitMs: 10_000 },
  drop: { total: 4, perKey: 2, ofFree: 1, queued: 256, waitMs: 90_000 },
} as const;

/** The key of the broker's own work, such as the upkeep, which counts like a Capsule. */
const SPACE = '';

/**
 * Returns the broker's connections for a Capsule: its requests leave some connections to others, whatever they wait
 * for.
 */
export type ConnectionShares = (capsule?: string) => Connections;

export function shareConnections(connections: Connections): ConnectionShares {
  const work = new SharedSlots(SHARES.work);
  const drops = new SharedSlots(SHARES.drop);
  return (capsule = SPACE) => {
    const within = async <T>(slots: SharedSlots, act: () => Promise<T>): Promise<T> => {
      const giveBack = await slots.take(capsule);
      try {
        return await act();
      } finally {
        giveBack();
      }
    };
    return {
      ...connections,
      transaction: (act, afterCommit) => within(work, () => connections.transaction(act, afterCommit)),
      session: (act) => within(work, () => connections.session(act)),
      dropping: (act) => within(drops, () => connections.dropping(act)),
    };
  };
}
