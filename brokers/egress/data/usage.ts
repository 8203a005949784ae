import { type GiveBack, RateLimit, SharedSlots, type ShareRefusal } from '@space/broker-kit';
import { Problem } from '../core/problem.ts';
import type { SharedResource } from '../metrics.ts';
import { TurnedAway } from '../policies/strangers.ts';
import type { OpenConnection, Tenant } from '../policies/tenant.ts';
import type { DataLimits } from './limits.ts';

/** Counts what each Assistant and each Capsule uses, and refuses more than its share. */
export interface Usage {
  /**
   * Counts a request or tunnel that begins. @throws Problem `rate_limited`, or `unavailable` if all slots are taken;
   * TurnedAway if its Capsule was refused as often as it may begin
   */
  begin(tenant: Tenant, kind: 'tunnels' | 'requests', connection: OpenConnection): () => void;
  /**
   * Calls what may refuse before anything begins. @throws what that throws; TurnedAway if its Capsule was refused as often
   * as it may begin
   */
  decide<T>(tenant: Tenant, decision: () => T): T;
  /** Whether another Capsule has a tunnel or a request, or had one in the last seconds. */
  hasOther(capsule: string): boolean;
  /** Reserves memory for this many bytes of a body until they are given back. @throws Problem as `begin` */
  hold(tenant: Tenant, bytes: number): GiveBack;
}

type UsageLimits = Pick<
  DataLimits,
  | 'perSecond'
  | 'burst'
  | 'capsulePerSecond'
  | 'tunnels'
  | 'capsuleTunnels'
  | 'allTunnels'
  | 'requests'
  | 'capsuleRequests'
  | 'allRequests'
  | 'capsuleSignedBytes'
  | 'allSignedBytes'
>;

/**
 * Milliseconds for which a Capsule counts after its last request. Its next one finds the bytes of others in turns; without turns,
 * each connection at full speed takes a part of every round of the event loop.
 */
const REMEMBERED_MS = 10_000;

/** Bytes are counted in slots of this size: few for the largest body, and small compared with every body. */
const SLOT_BYTES = 16 * 1024;
const slotsFor = (bytes: number): number => Math.ceil(bytes / SLOT_BYTES);

export function createUsage(
  limits: UsageLimits,
  onRefused: (resource: SharedResource, reason: ShareRefusal) => void,
  onTurnedAway: () => void,
): Usage {
  const { perSecond, burst, capsulePerSecond } = limits;
  const rate = new RateLimit({ perSecond, burst });
  const ofCapsule = { perSecond: capsulePerSecond, burst: (capsulePerSecond * burst) / perSecond };
  const capsuleRate = new RateLimit(ofCapsule);
  const refusals = new RateLimit(ofCapsule);
  const open = new WeakMap<Tenant, { tunnels: number; requests: number }>();
  let refusal: ShareRefusal = 'full';
  // The first Capsule gets its whole share, and each later one the same share of the rest, so that there is always
  // some.
  const sharedSlots = (resource: SharedResource, total: number, perKey: number) =>
    new SharedSlots({ total, perKey, ofFree: perKey / (total - perKey) }, (reason) => {
      refusal = reason;
      onRefused(resource, reason);
    });
  const shared = {
    tunnels: sharedSlots('tunnels', limits.allTunnels, limits.capsuleTunnels),
    requests: sharedSlots('requests', limits.allRequests, limits.capsuleRequests),
    signedBytes: sharedSlots(
      'signedBytes',
      slotsFor(limits.allSignedBytes),
      slotsFor(limits.capsuleSignedBytes),
    ),
  };
  /** A used-up share is the Capsule's own fault (429); a used-up total is not (503). */
  const takeSlot = (tenant: Tenant, kind: keyof typeof shared): GiveBack => {
    const slot = shared[kind].tryTake(tenant.capsule);
    if (slot !== undefined) return slot;
    throw new Problem(refusal === 'share' ? 'rate_limited' : 'unavailable', { retryAfter: 1 });
  };
  const begin: Usage['begin'] = (tenant, kind, connection) => {
    const { capsule, app } = tenant;
    const wait = capsuleRate.wait(capsule) ?? rate.take(`${capsule}/${app}`) ?? capsuleRate.take(capsule);
    if (wait !== undefined) throw new Problem('rate_limited', { retryAfter: wait });
    const counts = open.get(tenant) ?? { tunnels: 0, requests: 0 };
    open.set(tenant, counts);
    if (counts[kind] >= limits[kind]) throw new Problem('rate_limited', { retryAfter: 1 });
    const giveBack = takeSlot(tenant, kind);
    counts[kind] += 1;
    tenant.connections.add(connection);
    return () => {
      if (!tenant.connections.delete(connection)) return;
      counts[kind] -= 1;
      giveBack();
    };
  };
  const decide: Usage['decide'] = (tenant, decision) => {
    try {
      return decision();
    } catch (error) {
      // An answer and a log line for each refusal would cost as much as what is refused.
      if (refusals.take(tenant.capsule) === undefined) throw error;
      onTurnedAway();
      throw new TurnedAway();
    }
  };
  return {
    decide,
    hasOther: (capsule) =>
      shared.tunnels.hasOther(capsule, REMEMBERED_MS) || shared.requests.hasOther(capsule, REMEMBERED_MS),
    hold(tenant, bytes) {
      const taken: GiveBack[] = [];
      const giveBack = () => {
        for (const back of taken.splice(0)) back();
      };
      try {
        for (let slots = slotsFor(bytes); slots > 0; slots -= 1) taken.push(takeSlot(tenant, 'signedBytes'));
      } catch (error) {
        giveBack();
        throw error;
      }
      return giveBack;
    },
    begin: (tenant, kind, connection) => decide(tenant, () => begin(tenant, kind, connection)),
  };
}
