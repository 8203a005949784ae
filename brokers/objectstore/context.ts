import type { Logger } from '@space/broker-kit';
import type { Verify } from './byok/credentials/verify.ts';
import type { Custody } from './byok/custody/custody.ts';
import type { BrokerMetrics } from './metrics.ts';
import type { PrincipalsContext } from './principals/context.ts';
import type { QuotaOptions } from './quota/allowance.ts';
import type { AppSizes } from './quota/app-sizes.ts';

/** What every operation uses. */
export interface Context extends PrincipalsContext {
  readonly space: string;
  readonly custody: Custody;
  readonly verify: Verify;
  /** The rate of one Capsule's verifications. */
  readonly verifications: { readonly perSecond: number; readonly burst: number };
  /** The quota in bytes of a Capsule whose spec has none. */
  readonly defaultQuotaBytes: number;
  readonly appSizes: AppSizes;
  /** Counts a Capsule's objects in the bucket. */
  readonly recount: QuotaOptions['recount'];
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
}
