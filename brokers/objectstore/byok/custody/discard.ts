import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { beyond } from './anchor.ts';
import { clear } from './changes.ts';
import type { Custody } from './custody.ts';
import { emptyInventory, isEmpty } from './inventory.ts';
import { readIncarnation, readNumbers } from './rows.ts';

/** Discards everything that custody has of a Capsule that is being dropped, whatever its state; may be repeated. */
export async function clearCustody(custody: Custody, capsule: string): Promise<void> {
  try {
    await clearTrusted(custody, capsule);
  } catch (error) {
    // Damaged rows must not prevent the drop of a Capsule; an unavailable bucket may delay it.
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
 * Discards everything that custody has of a Capsule, even if nothing of it can be trusted. Later numbers are higher
 * than all in the rows and the anchor.
 */
export function discard(
  custody: Custody,
  capsule: string,
  note?: (session: Session) => Promise<void>,
): Promise<void> {
  return custody.exclusively(capsule, async (locked) => {
    const { session } = locked;
    // The write of an anchor from before a crash may still arrive, so it is completed first, and a late one is then
    // refused.
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
