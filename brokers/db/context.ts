import type { ConcurrencyLimit, Logger, Secret } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import type { IssuedAddress } from './core/credentials.ts';
import type { DerivationKeys } from './derivation-keys.ts';
import type { BrokerMetrics } from './metrics.ts';
import type { Blockers } from './operations/blockers.ts';
import type { ConnectionShares } from './operations/shares.ts';
import type { SpareNames } from './spares/names.ts';

/** What every operation of the broker works with. */
export interface Context {
  /** The share of the connections of whomever this works for; `blockers` guards them. */
  readonly connections: Connections;
  /** The connections of a Capsule, or without one the Space's own. */
  readonly shares: ConnectionShares;
  readonly blockers: Blockers;
  readonly space: string;
  readonly spares: SpareNames;
  readonly derivationKeys: () => DerivationKeys;
  /** Random: no name and no password is ever made twice, whatever registry is restored onto the server. */
  readonly newEpoch: () => string;
  readonly nameKey: Secret<Buffer>;
  readonly issued: IssuedAddress;
  readonly connectionLimit: number;
  /** Bytes that the databases of a Capsule without a limit of its own may hold. */
  readonly databaseBytes: number;
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
  /** Limits how many clones of the template run at once; more would only share the disk and hold connections. */
  readonly cloning: ConcurrencyLimit;
  /** Makes the template that spares are cloned from, unless it exists. */
  readonly ensureTemplate: () => Promise<void>;
  /** Asks the upkeep to look now: a spare was taken, or a drop left something behind. */
  readonly nudge: () => void;
  /** Milliseconds since the last mutation ended. */
  readonly quietFor: () => number;
  /** A point where a test may end the process; does nothing in service. */
  readonly failpoint: (name: string) => void;
}

/** The same for what is done for one Capsule. */
export const ofCapsule = (context: Context, capsule: string): Context => ({
  ...context,
  connections: context.shares(capsule),
});
