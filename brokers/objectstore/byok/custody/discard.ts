import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { clear } from './changes.ts';
import type { Custody } from './custody.ts';
import { emptyInventory, GENESIS, isEmpty } from './inventory.ts';
import { readIncarnation, readNumbers } from './rows.ts';

/** Leaves nothing of a Capsule that is being dropped in custody, in whatever state it is; may be run again. */
export async function clearCustody(custody: Custody, capsule: string): Promise<void> {
  try {
    await clearTrusted(custody, capsule);
  } catch (error) {
    // Damage must not keep a Capsule from being dropped; a bucket that is away may, for a while.
    const damaged = error instanceof ServiceError && error.retryAfter === undefined;
    if (!damaged || !error.code.startsWith('custody_')) throw error;
    await discard(custody, capsule);
  }
}

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
    const anchored = await locked.readAnchor();
    const anchor = anchored?.anchor === 'unreadable' ? undefined : anchored?.anchor;
    const rows = await readNumbers(session, capsule);
    if (rows === undefined && anchored === undefined) return;
    const beyond = (key: 'revision' | 'generation' | 'high') =>
      Math.max(rows?.[key] ?? 0, anchor?.[key] ?? 0) + 1;
    const next = {
      ...emptyInventory(capsule, await readIncarnation(session, capsule)),
      revision: beyond('revision'),
      generation: beyond('generation'),
      high: beyond('high'),
      previous: anchor?.head ?? GENESIS,
    };
    await locked.write(next, { overwrite: true, anchored }, note);
  });
}
