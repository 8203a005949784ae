import type { Dispatcher } from 'undici';
import { guardedPool, type Reach } from '../credentials/guarded.ts';

/**
 * Kept connections to the endpoints of Capsules' sets. A connection has no credential, since each request is signed
 * separately.
 */
export interface Pools {
  /** `owner` names the Capsule's set: connections are not shared between owners. */
  of(owner: string, origin: string): Dispatcher;
  close(): Promise<void>;
}

/** With more pools than this, the least recently used one is closed after its requests have ended. */
const MOST_POOLS = 256;
/** The most connections of one pool, which is also the most requests of a Capsule at the same time. */
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
