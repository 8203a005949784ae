import type { Logger, Secret, TokenDigest } from '@space/broker-kit';
import type { IssuedAddress } from '../core/credentials.ts';
import type { Keyring } from '../keys.ts';
import type { BrokerMetrics } from '../metrics.ts';
import type { Connections } from '../server/connections.ts';
import type { SpareNames } from '../spares/names.ts';

/** What every operation works with. */
export interface Context {
  readonly connections: Connections;
  readonly space: string;
  readonly spares: SpareNames;
  readonly keyring: () => Keyring;
  readonly nameKey: Secret<Buffer>;
  readonly issued: IssuedAddress;
  readonly connectionLimit: number;
  readonly log: Logger;
  readonly metrics: BrokerMetrics;
  /** Asks the upkeep to look now: a spare was taken, or a drop left something behind. */
  readonly nudge: () => void;
  /** Milliseconds since the last mutation ended. */
  readonly quietFor: () => number;
  /** A place where a test may end the process; does nothing in service. */
  readonly failpoint: (name: string) => void;
}

/** Who asks, and under which trace. */
export interface Call {
  readonly traceId: string;
  /** The Capsule principal's digest where the authority is a Capsule. */
  readonly principal?: TokenDigest;
}
