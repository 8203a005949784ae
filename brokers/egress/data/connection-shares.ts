import type { Socket } from 'node:net';
import { type GiveBack, SharedSlots, type ShareRefusal } from '@space/broker-kit';
import type { TurnedAwayReason } from '../metrics.ts';
import { type Policies, plainAddress } from '../policies/policies.ts';
import { isLoopback, UNKNOWN_OF_FREE } from '../policies/strangers.ts';
import type { DataLimits } from './limits.ts';

export type ConnectionLimits = Pick<
  DataLimits,
  'connections' | 'capsuleConnections' | 'allConnections' | 'unknownConnections' | 'allUnknownConnections'
>;

/** The slots of a connection: one of its address, and one of the Capsule (or unknown address) that it counts for. */
interface Kept {
  readonly pool: Pool;
  readonly capsule: string;
  readonly ofAddress: GiveBack;
  readonly ofCapsule: GiveBack;
}

/** Connections of which each address and each Capsule has a share. Idle ones are closed for others. */
interface Pool {
  readonly byAddress: SharedSlots;
  readonly byCapsule: SharedSlots;
  /** The share of the free slots that a key may come to have. */
  readonly ofFree: number;
  /** Idle connections, the one that was idle for longest first. */
  readonly idle: Set<Socket>;
}

/**
 * Limits connections. Known pods have a share each and one for their Capsule; addresses in no policy have a few
 * slots of their own. When all are taken, the connection that was silent for longest is closed: busy connections
 * are limited to fewer than all, so there always is a silent one.
 */
export class ConnectionShares {
  readonly #policies: Pick<Policies, 'capsuleAt'>;
  readonly #onTurnedAway: (reason: TurnedAwayReason) => void;
  readonly #known: Pool;
  readonly #unknown: Pool;
  readonly #own: Pool;
  readonly #kept = new WeakMap<Socket, Kept>();
  #refusal: ShareRefusal = 'full';

  constructor(
    policies: Pick<Policies, 'capsuleAt'>,
    limits: ConnectionLimits,
    onTurnedAway: (reason: TurnedAwayReason) => void,
  ) {
    this.#policies = policies;
    this.#onTurnedAway = onTurnedAway;
    this.#known = this.#pool(limits.allConnections, limits.connections, limits.capsuleConnections);
    const { allUnknownConnections: all, unknownConnections: each } = limits;
    this.#unknown = this.#pool(all, each, each, UNKNOWN_OF_FREE);
    this.#own = this.#pool(each, each, each);
  }

  get open(): number {
    return [this.#known, this.#unknown, this.#own].reduce((sum, { byAddress }) => sum + byAddress.taken, 0);
  }

  /** Whether a new connection may stay; its slots are returned when it closes. */
  admit(socket: Socket): boolean {
    const address = plainAddress(socket.remoteAddress ?? '');
    const capsule = this.#policies.capsuleAt(address);
    const pool = this.#poolOf(address, capsule);
    const kept = this.#take(pool, address, capsule ?? address);
    if (kept === undefined) return false;
    this.#kept.set(socket, kept);
    pool.idle.add(socket);
    socket.once('close', () => this.#leave(socket));
    return true;
  }

  /** Called when a request or a tunnel begins on the connection. */
  begins(socket: Socket): void {
    this.#kept.get(socket)?.pool.idle.delete(socket);
  }

  /** Called when the request was answered. */
  ended(socket: Socket): void {
    if (!socket.destroyed) this.#kept.get(socket)?.pool.idle.add(socket);
  }

  /**
   * Called when the caller is authenticated: the slot then counts for its Capsule, which was unknown at first, or was
   * taken for another one that still had the address.
   */
  proved(socket: Socket, capsule: string): void {
    const kept = this.#kept.get(socket);
    if (kept === undefined) return;
    const now =
      kept.pool === this.#known
        ? this.#recharged(kept, capsule)
        : this.#take(this.#known, plainAddress(socket.remoteAddress ?? ''), capsule);
    if (now === undefined || now === kept) return;
    kept.ofCapsule();
    if (now.ofAddress !== kept.ofAddress) kept.ofAddress();
    kept.pool.idle.delete(socket);
    this.#kept.set(socket, now);
  }

  /** The same connection, charged to another Capsule if that has a slot; none is closed for it, as none is added. */
  #recharged(kept: Kept, capsule: string): Kept | undefined {
    if (kept.capsule === capsule) return kept;
    const ofCapsule = kept.pool.byCapsule.tryTake(capsule);
    return ofCapsule && { ...kept, capsule, ofCapsule };
  }

  #poolOf(address: string, capsule: string | undefined): Pool {
    if (capsule !== undefined) return this.#known;
    return isLoopback(address) ? this.#own : this.#unknown;
  }

  #pool(total: number, perAddress: number, perCapsule: number, ofFree = Number.POSITIVE_INFINITY): Pool {
    const onRefusal = (reason: ShareRefusal) => {
      this.#refusal = reason;
    };
    return {
      byAddress: new SharedSlots({ total, perKey: perAddress, ofFree }, onRefusal),
      byCapsule: new SharedSlots({ total, perKey: perCapsule }, onRefusal),
      ofFree,
      idle: new Set(),
    };
  }

  #take(pool: Pool, address: string, capsule: string): Kept | undefined {
    const ofAddress = this.#tryTake(pool, pool.byAddress, address);
    if (ofAddress === undefined) return this.#refuse('connections_address');
    const ofCapsule = this.#tryTake(pool, pool.byCapsule, capsule);
    if (ofCapsule !== undefined) return { pool, capsule, ofAddress, ofCapsule };
    ofAddress();
    return this.#refuse('connections_capsule');
  }

  #tryTake(pool: Pool, slots: SharedSlots, key: string): GiveBack | undefined {
    const slot = slots.tryTake(key);
    // A key that could not have the place of an idle connection does not end one.
    if (slot !== undefined || this.#refusal === 'share' || slots.heldBy(key) >= pool.ofFree) return slot;
    const [longest] = pool.idle;
    if (longest === undefined) return undefined;
    this.#leave(longest);
    longest.destroy();
    return slots.tryTake(key);
  }

  #refuse(reason: TurnedAwayReason): undefined {
    this.#onTurnedAway(this.#refusal === 'share' ? reason : 'connections_full');
    return undefined;
  }

  #leave(socket: Socket): void {
    const kept = this.#kept.get(socket);
    if (kept === undefined) return;
    this.#kept.delete(socket);
    kept.pool.idle.delete(socket);
    kept.ofAddress();
    kept.ofCapsule();
  }
}
