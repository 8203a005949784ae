import { type GiveBack, RateLimit, SharedPlaces, type ShareRefusal } from '@space/broker-kit';
import { Problem } from '../core/problem.ts';
import type { SharedResource } from '../metrics.ts';
import type { Held, Tenant } from '../policies/tenant.ts';
import type { DataLimits } from './limits.ts';

/** Counts what each Assistant and each Capsule uses, and says no beyond its share. */
export interface Usage {
  /** One request or tunnel begins. @throws Problem `rate_limited`, or `unavailable` when all places are taken */
  begin(tenant: Tenant, kind: SharedResource, held: Held): () => void;
}

type UsageLimits = Pick<
  DataLimits,
  | 'perSecond'
  | 'burst'
  | 'tunnels'
  | 'capsuleTunnels'
  | 'allTunnels'
  | 'requests'
  | 'capsuleRequests'
  | 'allRequests'
>;

export function createUsage(
  limits: UsageLimits,
  onRefused: (resource: SharedResource, reason: ShareRefusal) => void = () => undefined,
): Usage {
  const rate = new RateLimit({ perSecond: limits.perSecond, burst: limits.burst });
  const open = new WeakMap<Tenant, { tunnels: number; requests: number }>();
  let refusal: ShareRefusal = 'full';
  const placesOf = (resource: SharedResource, total: number, perKey: number) =>
    new SharedPlaces({ total, perKey }, (reason) => {
      refusal = reason;
      onRefused(resource, reason);
    });
  const shared = {
    tunnels: placesOf('tunnels', limits.allTunnels, limits.capsuleTunnels),
    requests: placesOf('requests', limits.allRequests, limits.capsuleRequests),
  };
  /** What the Capsule has used up is its own doing; what all have is nobody's. */
  const placeOf = (tenant: Tenant, kind: SharedResource): GiveBack => {
    const place = shared[kind].tryTake(tenant.capsule);
    if (place !== undefined) return place;
    throw new Problem(refusal === 'share' ? 'rate_limited' : 'unavailable', { retryAfter: 1 });
  };
  return {
    begin(tenant, kind, held) {
      const wait = rate.take(`${tenant.capsule}/${tenant.app}`);
      if (wait !== undefined) throw new Problem('rate_limited', { retryAfter: wait });
      const counts = open.get(tenant) ?? { tunnels: 0, requests: 0 };
      open.set(tenant, counts);
      if (counts[kind] >= limits[kind]) throw new Problem('rate_limited', { retryAfter: 1 });
      const giveBack = placeOf(tenant, kind);
      counts[kind] += 1;
      tenant.held.add(held);
      return () => {
        if (!tenant.held.remove(held)) return;
        counts[kind] -= 1;
        giveBack();
      };
    },
  };
}
