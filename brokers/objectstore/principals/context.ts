import type { Connections } from '@space/broker-kit/postgres';
import type { CapsuleAuthority } from './authority.ts';
import type { Bindings } from './bindings.ts';
import type { Epochs } from './epochs.ts';
import type { PrefixNames } from './prefix-names.ts';

/** What every operation on Capsules and workloads works with. */
export interface PrincipalsContext {
  readonly connections: Connections;
  readonly prefixNames: PrefixNames;
  readonly bindings: Bindings;
  readonly capsules: CapsuleAuthority;
  /** Called for a row of principals that this broker did not write. */
  readonly onForged: (capsule: string, app?: string) => void;
  readonly epochs: Epochs;
  /** Deletes every object and unfinished upload whose key begins with the prefix; may be run again at any time. */
  readonly sweep: (prefix: string, stopping?: AbortSignal) => Promise<void>;
  /** Leaves nothing of a Capsule in custody; may be run again at any time. */
  readonly clearCustody: (capsule: string) => Promise<void>;
  /** Resolves when no replica goes on with a principal that it found before the call. */
  readonly leasesLapse: () => Promise<void>;
  /** A step where a test may end the process; does nothing in service. */
  readonly failpoint: (name: string) => void;
}
