import { RateLimit } from '@space/broker-kit';
import { Problem } from '../core/problem.ts';
import type { Held, Tenant } from '../policies/tenant.ts';
import type { DataLimits } from './limits.ts';

/** Counts what each Assistant uses, and says no beyond its share. */
export interface Usage {
  /** One request or tunnel begins. @throws Problem `rate_limited` */
  begin(tenant: Tenant, kind: 'tunnels' | 'requests', held: Held): () => void;
}

export function createUsage(limits: DataLimits): Usage {
  const rate = new RateLimit({ perSecond: limits.perSecond, burst: limits.burst });
  const open = new WeakMap<Tenant, { tunnels: number; requests: number }>();
  return {
    begin(tenant, kind, held) {
      const wait = rate.take(`${tenant.capsule}/${tenant.app}`);
      if (wait !== undefined) throw new Problem('rate_limited', { retryAfter: wait });
      const counts = open.get(tenant) ?? { tunnels: 0, requests: 0 };
      open.set(tenant, counts);
      if (counts[kind] >= limits[kind]) throw new Problem('rate_limited', { retryAfter: 1 });
      counts[kind] += 1;
      tenant.held.add(held);
      return () => {
        if (tenant.held.remove(held)) counts[kind] -= 1;
      };
    },
  };
}
