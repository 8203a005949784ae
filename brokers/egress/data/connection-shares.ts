import type { Socket } from 'node:net';
import { type GiveBack, SharedSlots, type ShareRefusal } from '@space/broker-kit';
import type { TurnedAwayReason } from '../metrics.ts';
import { type Policies, plainAddress } from '../policies/policies.ts';
import { isLoopback, UNKNOWN_OF_FREE } from '../policies/strangers.ts';
import type { DataLimits } from './limits.ts';

export type ConnectionLimits = Pick<
  DataLimits,
  | 'connections'
  | 'capsuleConnections'
  | 'allConnections'
  | 'unknownConnections'
  | 'allUnknownConnections'
  | 'arrivals'
  | 'allArrivals'
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

/** The share of what is free that the new pods of one Capsule may come to have. */
const ARRIVALS_OF_FREE = 0.5;

/**
 * Limits connections. Known pods have a share each and one for their Capsule; addresses in no policy have a few slots of
 * their own, and more of their Capsule once they show the principal of an Assistant. When all are taken, the connection
 * that was silent for longest is closed: busy connections are limited to fewer than all, so there always is a silent one.
 */
export class ConnectionShares {
  readonly #policies: Pick<Policies, 'capsuleAt'>;
  readonly #onTurnedAway: (reason: TurnedAwayReason) => void;
  readonly #known: Pool;
  readonly #unknown: Pool;
  readonly #arriving: Pool;
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
    this.#arriving = this.#pool(limits.allArrivals, limits.arrivals, limits.arrivals, ARRIVALS_OF_FREE);
    this.#own = this.#pool(each, each, each);
  }

  get open(): number {
    const pools = [this.#known, this.#unknown, this.#arriving, this.#own];
    return pools.reduce((sum, { byAddress }) => sum + byAddress.taken, 0);
  }

  /** Whether a new connection may stay; its slots are returned when it closes. */
  admit(socket: Socket): boolean {
    const address = plainAddress(socket.remoteAddress ?? '');
    const capsule = this.#policies.capsuleAt(address);
    const pool = this.#poolOf(address, capsule);
    const kept = this.#take(pool, address, capsule ?? address);
    if (typeof kept === 'string') {
      this.#onTurnedAway(kept);
      return false;
    }
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
   * Called when the caller shows a principal of the Capsule and has an address that is in no policy. Whether its slot is
   * one of the Capsule's new pods now.
   */
  arrives(socket: Socket, capsule: string): boolean {
    const kept = this.#kept.get(socket);
    if (kept?.pool === this.#arriving) return kept.capsule === capsule;
    if (kept?.pool !== this.#unknown) return false;
    const now = this.#take(this.#arriving, plainAddress(socket.remoteAddress ?? ''), capsule);
    if (typeof now === 'string') return false;
    this.#change(socket, kept, now);
    return true;
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
    if (typeof now === 'string') this.#onTurnedAway(now);
    else if (now !== undefined && now !== kept) this.#change(socket, kept, now);
  }

  /** Gives a connection that is in use other slots, and its former ones back. */
  #change(socket: Socket, kept: Kept, now: Kept): void {
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
      byCapsule: new SharedSlots({ total, perKey: perCapsule, ofFree }, onRefusal),
      ofFree,
      idle: new Set(),
    };
  }

  /** Both slots of a connection, or why it does not get them. */
  #take(pool: Pool, address: string, capsule: string): Kept | TurnedAwayReason {
    const ofAddress = this.#tryTake(pool, pool.byAddress, address);
    if (ofAddress === undefined) return this.#reason('connections_address');
    const ofCapsule = this.#tryTake(pool, pool.byCapsule, capsule);
    if (ofCapsule !== undefined) return { pool, capsule, ofAddress, ofCapsule };
    ofAddress();
    return this.#reason('connections_capsule');
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

  #reason(ofShare: TurnedAwayReason): TurnedAwayReason {
    return this.#refusal === 'share' ? ofShare : 'connections_full';
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
