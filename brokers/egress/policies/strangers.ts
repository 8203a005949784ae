import { type GiveBack, RateLimit, SharedSlots } from '@space/broker-kit';
import type { TurnedAwayReason } from '../metrics.ts';
import type { Policies } from './policies.ts';

/** Closes a connection without an answer or a log line, since both would cost more than the call did. */
export class TurnedAway extends Error {
  constructor() {
    super('turned away');
    this.name = 'TurnedAway';
  }
}

/** The share of what is free that an unknown address may come to have, so that many of them always leave some. */
export const UNKNOWN_OF_FREE = 0.25;

export interface StrangerLimits {
  readonly unknownConnections: number;
  readonly allUnknownConnections: number;
  readonly refusalsPerSecond: number;
  readonly refusalsBurst: number;
  readonly perSecond: number;
  readonly burst: number;
}

/**
 * Whether the address is that of the replica's own health check, which has separate limits so that callers cannot crowd
 * it out.
 */
export const isLoopback = (address: string): boolean => address === '127.0.0.1' || address === '::1';

/**
 * Bounds the cost of calls whose address or principal is in no policy. Each pod has an address of its own; pods of a
 * known Capsule share one limit.
 */
export class Strangers {
  readonly #policies: Pick<Policies, 'capsuleAt'>;
  readonly #onTurnedAway: (reason: TurnedAwayReason) => void;
  readonly #waiting: SharedSlots;
  readonly #ownWaiting: SharedSlots;
  #arriving = 0;
  readonly #unknown: RateLimit;
  readonly #known: RateLimit;

  constructor(
    policies: Pick<Policies, 'capsuleAt'>,
    limits: StrangerLimits,
    onTurnedAway: (reason: TurnedAwayReason) => void,
  ) {
    this.#policies = policies;
    this.#onTurnedAway = onTurnedAway;
    const { unknownConnections: perKey, allUnknownConnections: total } = limits;
    this.#waiting = new SharedSlots({ total, perKey, ofFree: UNKNOWN_OF_FREE });
    this.#ownWaiting = new SharedSlots({ total: perKey, perKey });
    this.#unknown = new RateLimit({ perSecond: limits.refusalsPerSecond, burst: limits.refusalsBurst });
    this.#known = new RateLimit(limits);
  }

  /** Calls that wait for a policy now. */
  get waiting(): number {
    return this.#waiting.taken + this.#ownWaiting.taken + this.#arriving;
  }

  /**
   * Counts a refusal that is about to be answered. Returns whether it may be; when the address was refused too often, the
   * connection is closed instead.
   */
  mayRefuse(address: string): boolean {
    const capsule = this.#policies.capsuleAt(address);
    // Some clients first send a request without their credential for each tunnel that they open.
    const wait = capsule === undefined ? this.#unknown.take(address) : this.#known.take(address);
    if (wait !== undefined) this.#onTurnedAway('refusals');
    return wait === undefined;
  }

  /** Counts a refusal that is about to be answered. @throws TurnedAway when the address was refused too often */
  refuse(address: string): void {
    if (!this.mayRefuse(address)) throw new TurnedAway();
  }

  /** Lets a call wait until its policy has come or its refusal is due. @throws TurnedAway when too many wait */
  enterWaiting(address: string): GiveBack {
    this.refuse(address);
    const slots = isLoopback(address) ? this.#ownWaiting : this.#waiting;
    return (
      slots.tryTake(this.#policies.capsuleAt(address) ?? `address ${address}`) ?? this.#turnAway('waiting')
    );
  }

  /** Counts a call that waits at a place of its Capsule's new pods, until the result is called. */
  countArriving(): () => void {
    this.#arriving += 1;
    return () => {
      this.#arriving -= 1;
    };
  }

  #turnAway(reason: TurnedAwayReason): never {
    this.#onTurnedAway(reason);
    throw new TurnedAway();
  }
}
