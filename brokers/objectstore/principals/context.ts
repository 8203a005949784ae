import type { Connections } from '@space/broker-kit/postgres';
import type { CapsuleAuthority } from './authority.ts';
import type { Bindings } from './bindings.ts';
import type { Epochs } from './epochs.ts';
import type { PrefixNames } from './prefix-names.ts';

/** What every operation on Capsules and workloads uses. */
export interface PrincipalsContext {
  readonly connections: Connections;
  readonly prefixNames: PrefixNames;
  readonly bindings: Bindings;
  readonly capsules: CapsuleAuthority;
  /** Called for a row of principals that this broker did not write. */
  readonly onForged: (capsule: string, app?: string) => void;
  readonly epochs: Epochs;
  /** Deletes every object and unfinished upload under the prefix; may be repeated at any time. */
  readonly sweep: (prefix: string, stopping?: AbortSignal) => Promise<void>;
  /** Discards everything that custody has of a Capsule; may be repeated at any time. */
  readonly clearCustody: (capsule: string) => Promise<void>;
  /** Resolves when no replica still uses a principal that it looked up before the call. */
  readonly leasesLapse: () => Promise<void>;
  /** A point where a test may end the process; in production it does nothing. */
  readonly failpoint: (name: string) => void;
}
