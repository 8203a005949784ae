import type { ConcurrencyLimit, Logger, Secret } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import type { IssuedAddress } from './core/credentials.ts';
import type { DerivationKeys } from './derivation-keys.ts';
import type { TellEnded } from './limits/endings.ts';
import type { BrokerMetrics } from './metrics.ts';
import type { Blockers } from './operations/blockers.ts';
import type { ConnectionShares } from './operations/shares.ts';
import type { SpareNames } from './spares/names.ts';

/** What every operation of the broker uses, for one server. */
export interface Context {
  /** The connections of the Capsule that is worked for, within its share; `blockers` ends sessions that delay them. */
  readonly connections: Connections;
  /** Returns the connections of a Capsule; without an argument, those of the broker's own work. */
  readonly shares: ConnectionShares;
  readonly blockers: Blockers;
  readonly space: string;
  readonly spares: SpareNames;
  readonly derivationKeys: () => DerivationKeys;
  /** A random text, so that no name and no password occurs twice, whatever registry is restored onto the server. */
  readonly newEpoch: () => string;
  readonly nameKey: Secret<Buffer>;
  readonly issued: IssuedAddress;
  readonly connectionLimit: number;
  /** The size limit in bytes of all databases of a Capsule without a limit of its own. */
  readonly databaseBytes: number;
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
  readonly tellEnded: TellEnded;
  /**
   * Limits how many clones of the template run at once, since more would only share the disk and occupy connections.
   */
  readonly cloning: ConcurrencyLimit;
  /** Makes the template that spares are cloned from, unless it exists. */
  readonly ensureTemplate: () => Promise<void>;
  /** Makes the upkeep run soon, since a spare was taken or a drop left something behind. */
  readonly nudge: () => void;
  /** Milliseconds since the last mutation ended. */
  readonly quietFor: () => number;
  /** A point where a test may end the process; in production it does nothing. */
  readonly failpoint: (name: string) => void;
}

/** The same context with the connections of one Capsule. */
export const ofCapsule = (context: Context, capsule: string): Context => ({
  ...context,
  connections: context.shares(capsule),
});
