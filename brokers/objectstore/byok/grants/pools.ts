import type { Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import type { Passing, Sends } from '../../upstream/relay.ts';
import { guardedPool, type Reach } from '../credentials/guarded.ts';

/**
 * Kept connections to the endpoints of Capsules' sets. A connection has no credential, since each request is signed
 * separately.
 */
export interface Pools {
  /** Connections are not shared between sets. */
  of(set: PoolOf): Sends;
  close(): Promise<void>;
}

interface PoolOf {
  readonly capsule: string;
  readonly setId: string;
  readonly origin: string;
}

export interface PoolsOptions {
  /** The most connections of all pools; beyond them a pool of the Capsule that has most is closed. */
  readonly most: number;
  /** Milliseconds for which an unused connection is kept, whatever its server says. */
  readonly keepMs?: number;
  /** How what arrives for a Capsule is read. */
  readonly passingOf: (capsule: string) => Passing;
  /** With more pools than this, the least recently used one is closed after its requests have ended. */
  readonly mostPools?: number;
}

interface Kept {
  readonly capsule: string;
  readonly pool: Dispatcher;
  open: number;
}

const MOST_POOLS = 256;
/** The most connections of one pool, which is also the most requests of a Capsule at the same time. */
const CONNECTIONS = 64;
const KEEP_MS = 20_000;

export function createPools(
  reach: Reach,
  { most, passingOf, keepMs = KEEP_MS, mostPools = MOST_POOLS }: PoolsOptions,
): Pools {
  /** The least recently used one first. */
  const pools = new Map<string, Kept>();

  function create(capsule: string, origin: string): Kept {
    const onOpen = (socket: Socket) => {
      kept.open += 1;
      socket.once('close', () => {
        kept.open -= 1;
      });
      closeUnused();
    };
    const passing = passingOf(capsule);
    const pool = guardedPool(origin, { ...reach, connections: CONNECTIONS, keepMs, onOpen, passing });
    const kept = { capsule, pool, open: 0 };
    return kept;
  }

  /** Its requests go on to their end, and further ones get another pool. */
  function end(name: string): void {
    const kept = pools.get(name);
    pools.delete(name);
    kept?.pool.close().catch(() => undefined);
  }

  function closeUnused(): void {
    const held = new Map<string, number>();
    let open = 0;
    for (const one of pools.values()) {
      open += one.open;
      held.set(one.capsule, (held.get(one.capsule) ?? 0) + one.open);
    }
    if (open <= most) return;
    const highest = Math.max(...held.values());
    const [first] = [...pools].find(([, one]) => one.open > 0 && held.get(one.capsule) === highest) ?? [];
    if (first !== undefined) end(first);
  }

  function poolOf({ capsule, setId, origin }: PoolOf): Dispatcher {
    const name = `${setId} ${origin}`;
    const kept = pools.get(name) ?? create(capsule, origin);
    pools.delete(name);
    pools.set(name, kept);
    for (const oldest of pools.keys()) {
      if (pools.size <= mostPools) break;
      end(oldest);
    }
    return kept.pool;
  }

  return {
    // The pool is taken when a request is sent, since it may be closed while the request waits for its turn.
    of: (set) => ({ dispatch: (options, handler) => poolOf(set).dispatch(options, handler) }),
    close: async () => {
      await Promise.all([...pools.values()].map(({ pool }) => pool.destroy()));
    },
  };
}
