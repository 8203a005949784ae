import type { Dispatcher } from 'undici';
import { guardedPool, type Reach } from '../credentials/guarded.ts';

/** Kept connections to the endpoints of Capsules' sets. A connection knows no key: each request is signed for itself. */
export interface Pools {
  /** `owner` names the Capsule's set: no connection is shared with another's. */
  of(owner: string, origin: string): Dispatcher;
  close(): Promise<void>;
}

/** More than these are begun anew for whoever has not asked for longest; what is under way on them ends first. */
const MOST_POOLS = 256;
/** Connections of one pool: as many as a Capsule may have requests at one time. */
const CONNECTIONS = 64;

export function createPools(reach: Reach): Pools {
  const pools = new Map<string, Dispatcher>();
  return {
    of: (owner, origin) => {
      const name = `${owner} ${origin}`;
      const pool = pools.get(name) ?? guardedPool(origin, { ...reach, connections: CONNECTIONS });
      pools.delete(name);
      pools.set(name, pool);
      for (const [oldest, idle] of pools) {
        if (pools.size <= MOST_POOLS) break;
        pools.delete(oldest);
        idle.close().catch(() => undefined);
      }
      return pool;
    },
    close: async () => {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
    },
  };
}
