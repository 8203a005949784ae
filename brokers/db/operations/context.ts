import type { ConcurrencyLimit, Logger, Secret } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import type { IssuedAddress } from '../core/credentials.ts';
import type { Keyring } from '../keys.ts';
import type { BrokerMetrics } from '../metrics.ts';
import type { SpareNames } from '../spares/names.ts';
import type { Blockers } from './blockers.ts';

/** What every operation works with. */
export interface Context {
  /** Under the eye of `blockers`. */
  readonly connections: Connections;
  readonly blockers: Blockers;
  readonly space: string;
  readonly spares: SpareNames;
  readonly keyring: () => Keyring;
  /** Random: no name and no password is ever made twice, whatever registry is restored onto the server. */
  readonly newEpoch: () => string;
  readonly nameKey: Secret<Buffer>;
  readonly issued: IssuedAddress;
  readonly connectionLimit: number;
  /** That the databases of a Capsule may hold which has no limit of its own. */
  readonly databaseBytes: number;
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
  /** Turns at cloning the template, in order; more at once would only share the disk and hold connections. */
  readonly cloning: ConcurrencyLimit;
  /** Makes the template that spares are cloned from, unless it is there. */
  readonly ensureTemplate: () => Promise<void>;
  /** Asks the upkeep to look now: a spare was taken, or a drop left something behind. */
  readonly nudge: () => void;
  /** Milliseconds since the last mutation ended. */
  readonly quietFor: () => number;
  /** A place where a test may end the process; does nothing in service. */
  readonly failpoint: (name: string) => void;
}
