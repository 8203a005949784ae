import { LineBudget, type Logger, ServiceError, type Watched } from '@space/broker-kit';
import type { Keyring } from '@space/broker-kit/custody';
import { type Anchor, type AnchorVerdict, compare } from './anchor.ts';
import { emptyInventory, type Inventory, isEmpty, type StoredInventory } from './inventory.ts';
import { parseInventory } from './rows.ts';
import type { Seals } from './seals.ts';

export type Alarm = 'damaged' | 'unknown_key' | 'rollback';

/** The result of the check; `problem` says why the rows are not trusted. */
type Examined =
  | { readonly stored: StoredInventory | undefined; readonly problem?: never }
  | { readonly problem: string };

/** Trusts only rows that this Space sealed for this Capsule. Decrypts nothing. */
function examine(seals: Seals, capsule: string, raw: unknown): Examined {
  if (raw === undefined) return { stored: undefined };
  const stored = parseInventory(raw);
  if (stored === undefined) return { problem: 'rows' };
  if (stored.capsule !== capsule) return { problem: 'another Capsule' };
  const problem = seals.problemOf(stored);
  return problem === undefined ? { stored } : { problem };
}

/** Every check of rows and anchor that precedes the use of a set. */
export function judge(
  seals: Seals,
  capsule: string,
  raw: unknown,
  anchor: Anchor | 'unreadable' | undefined,
): 'damaged' | AnchorVerdict {
  const examined = examine(seals, capsule, raw);
  return examined.problem === undefined ? compare(examined.stored, anchor) : 'damaged';
}

export interface TrustOptions {
  readonly seals: () => Seals;
  readonly keyring: Pick<Watched<Keyring>, 'refresh'>;
  readonly log: Logger;
  /** Called when a person should investigate: rows that this Space did not write, or a registry that was set back. */
  readonly onAlarm: (alarm: Alarm) => void;
}

/** Decides what of the registry is used; every refusal raises an alarm. */
export interface Trust {
  /** The inventory in these rows. Throws unless this Space sealed them for this Capsule. */
  verifyStored(capsule: string, raw: unknown): Promise<StoredInventory | undefined>;
  /**
   * The inventory of an incarnation of a Capsule. A drop empties custody before the id is free for the next
   * incarnation, so an inventory of an earlier one must be empty; otherwise the registry was set back or edited, and
   * the Capsule must not look like one that has never selected a set, whose objects are in the Space's bucket.
   */
  forIncarnation(capsule: string, stored: StoredInventory | undefined, incarnation: number): Inventory;
  /** Raises the alarm; returns the error to throw. */
  alarm(kind: Alarm, capsule: string, problem: string): ServiceError;
}

export function createTrust({ seals, keyring, log, onAlarm }: TrustOptions): Trust {
  const lines = new LineBudget(log);
  function alarm(kind: Alarm, capsule: string, problem: string): ServiceError {
    onAlarm(kind);
    const about = { capsule, custody: kind, problem };
    if (lines.allows('error', about, 'custody')) log.error(about, 'custody');
    const code = kind === 'rollback' ? 'custody_rollback' : 'custody_unavailable';
    return new ServiceError(code, `custody: ${problem}`);
  }

  return {
    alarm,
    verifyStored: async (capsule, raw) => {
      let examined = examine(seals(), capsule, raw);
      if (examined.problem === 'unknown_key') {
        // Another replica may have read a new key earlier.
        await keyring.refresh();
        examined = examine(seals(), capsule, raw);
      }
      const { problem } = examined;
      if (problem === undefined) return examined.stored;
      throw alarm(problem === 'unknown_key' ? 'unknown_key' : 'damaged', capsule, problem);
    },
    forIncarnation: (capsule, stored, incarnation) => {
      if (stored === undefined) return emptyInventory(capsule, incarnation);
      if (stored.incarnation === incarnation) return stored;
      if (stored.incarnation < incarnation && isEmpty(stored)) return { ...stored, incarnation };
      throw alarm('rollback', capsule, 'the inventory is of another incarnation');
    },
  };
}
