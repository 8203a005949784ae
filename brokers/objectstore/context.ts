import type { Logger } from '@space/broker-kit';
import type { Verify } from './byok/credentials/verify.ts';
import type { Custody } from './byok/custody/custody.ts';
import type { BrokerMetrics } from './metrics.ts';
import type { PrincipalsContext } from './principals/context.ts';
import type { QuotaOptions } from './quota/allowance.ts';
import type { AppSizes } from './quota/app-sizes.ts';

/** What every operation works with. */
export interface Context extends PrincipalsContext {
  readonly space: string;
  readonly custody: Custody;
  readonly verify: Verify;
  /** Candidates of one Capsule. */
  readonly verifications: { readonly perSecond: number; readonly burst: number };
  /** Bytes that a Capsule may hold whose spec names no quota. */
  readonly defaultQuotaBytes: number;
  readonly appSizes: AppSizes;
  /** Counts a Capsule anew, by what the bucket has. */
  readonly recount: QuotaOptions['recount'];
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
}
