import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { beyond } from './anchor.ts';
import { clear } from './changes.ts';
import type { Custody } from './custody.ts';
import { emptyInventory, isEmpty } from './inventory.ts';
import { readIncarnation, readNumbers } from './rows.ts';

/** Leaves nothing of a Capsule that is being dropped in custody, in whatever state it is; may be run again. */
export async function clearCustody(custody: Custody, capsule: string): Promise<void> {
  try {
    await clearTrusted(custody, capsule);
  } catch (error) {
    // Damage must not keep a Capsule from being dropped; a bucket that is away may, for a while.
    if (!isDamage(error)) throw error;
    await discard(custody, capsule);
  }
}

const isDamage = (error: unknown) =>
  error instanceof ServiceError && error.retryAfter === undefined && error.code.startsWith('custody_');

function clearTrusted(custody: Custody, capsule: string): Promise<void> {
  return custody.change(capsule, async (change) => {
    const inventory = change.read('stored');
    if (!isEmpty(inventory)) await change.commit(clear(inventory, inventory.incarnation));
  });
}

/**
 * Gives up whatever a Capsule has in custody, also when nothing of it can be trusted: throwing away needs no trust.
 * What comes after is beyond every number that the rows or the anchor know.
 */
export function discard(
  custody: Custody,
  capsule: string,
  note?: (session: Session) => Promise<void>,
): Promise<void> {
  return custody.exclusively(capsule, async (locked) => {
    const { session } = locked;
    // What a crash left is anchored first: the write of its anchor may still be under way, and is refused then.
    await locked.settle().catch((error: unknown) => {
      if (!isDamage(error)) throw error;
    });
    const anchored = await locked.readAnchor();
    const rows = await readNumbers(session, capsule);
    if (rows === undefined && anchored === undefined) return;
    const empty = emptyInventory(capsule, await readIncarnation(session, capsule));
    const next = { ...empty, ...beyond(rows, anchored?.anchor) };
    await locked.write(next, { overwrite: true, anchored }, note);
  });
}
