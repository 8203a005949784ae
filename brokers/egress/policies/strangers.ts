import { type GiveBack, RateLimit, SharedPlaces } from '@space/broker-kit';
import type { TurnedAwayReason } from '../metrics.ts';
import type { Policies } from './policies.ts';

/** Whoever causes it gets no answer, and leaves no line: both would cost more than the call did. */
export class TurnedAway extends Error {
  constructor() {
    super('turned away');
    this.name = 'TurnedAway';
  }
}

export interface StrangerLimits {
  readonly unknownConnections: number;
  readonly allUnknownConnections: number;
  readonly refusalsPerSecond: number;
  readonly refusalsBurst: number;
  readonly perSecond: number;
  readonly burst: number;
}

/** By which a replica's own health check calls; nobody else can crowd it out. */
export const isOwn = (address: string): boolean => address === '127.0.0.1' || address === '::1';

/**
 * Bounds what calls cost that no policy knows yet, or ever. Pods have addresses of their own, so an address is one pod;
 * pods of a known Capsule share its part.
 */
export class Strangers {
  readonly #policies: Pick<Policies, 'capsuleAt'>;
  readonly #onTurnedAway: (reason: TurnedAwayReason) => void;
  readonly #waiting: SharedPlaces;
  readonly #ownWaiting: SharedPlaces;
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
    this.#waiting = new SharedPlaces({ total, perKey });
    this.#ownWaiting = new SharedPlaces({ total: perKey, perKey });
    this.#unknown = new RateLimit({ perSecond: limits.refusalsPerSecond, burst: limits.refusalsBurst });
    this.#known = new RateLimit(limits);
  }

  /** Calls that wait for a policy now. */
  get waiting(): number {
    return this.#waiting.taken + this.#ownWaiting.taken;
  }

  /** One more refusal is about to be told. @throws TurnedAway when the address was told often enough */
  refuse(address: string): void {
    const capsule = this.#policies.capsuleAt(address);
    // A client that first asks without its credential does so for each tunnel, which an Assistant may open often.
    const wait = capsule === undefined ? this.#unknown.take(address) : this.#known.take(address);
    if (wait !== undefined) this.#turnAway('refusals');
  }

  /** A place to wait in until the caller's policy is there, or its refusal due. @throws TurnedAway */
  hold(address: string): GiveBack {
    this.refuse(address);
    const places = isOwn(address) ? this.#ownWaiting : this.#waiting;
    return (
      places.tryTake(this.#policies.capsuleAt(address) ?? `address ${address}`) ?? this.#turnAway('waiting')
    );
  }

  #turnAway(reason: TurnedAwayReason): never {
    this.#onTurnedAway(reason);
    throw new TurnedAway();
  }
}
