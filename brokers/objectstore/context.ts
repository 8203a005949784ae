import type { Logger } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import type { Verify } from './byok/credentials/verify.ts';
import type { Custody } from './byok/custody/custody.ts';
import type { BrokerMetrics } from './metrics.ts';
import type { CapsuleAuthority } from './principals/authority.ts';
import type { Bindings } from './principals/bindings.ts';
import type { Epochs } from './principals/epochs.ts';
import type { PlaceNames } from './principals/names.ts';

/** What every operation works with. */
export interface Context {
  readonly connections: Connections;
  readonly space: string;
  readonly places: PlaceNames;
  readonly bindings: Bindings;
  readonly capsules: CapsuleAuthority;
  /** Of a row of principals that this broker did not write. */
  readonly onForged: (capsule: string, app?: string) => void;
  readonly epochs: Epochs;
  /** Deletes every object and unfinished upload whose key begins with the place; may be run again at any time. */
  readonly sweep: (place: string, stopping?: AbortSignal) => Promise<void>;
  readonly custody: Custody;
  readonly verify: Verify;
  /** Candidates of one Capsule. */
  readonly verifications: { readonly perSecond: number; readonly burst: number };
  /** Bytes that a Capsule may hold whose spec names no quota. */
  readonly defaultQuotaBytes: number;
  /** Resolves when no replica goes on with a principal that it found before the call. */
  readonly leasesLapse: () => Promise<void>;
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
  /** A place where a test may end the process; does nothing in service. */
  readonly failpoint: (name: string) => void;
}
