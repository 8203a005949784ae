import type { Session } from '@space/broker-kit/postgres';
import type { Custody } from './custody.ts';
import { emptyInventory, GENESIS } from './inventory.ts';
import { readLife, readNumbers } from './rows.ts';

/**
 * Gives up whatever a Capsule has in custody, also when nothing of it can be believed: throwing away needs no trust.
 * What comes after is beyond every number that the rows or the anchor know.
 */
export function discard(
  custody: Custody,
  capsule: string,
  beside: (session: Session) => Promise<void> = async () => undefined,
): Promise<void> {
  return custody.exclusively(capsule, async (session, { anchor, write }) => {
    const held = await anchor();
    const known = held?.anchor === 'unreadable' ? undefined : held?.anchor;
    const rows = await readNumbers(session, capsule);
    if (rows === undefined && held === undefined) return;
    const beyond = (key: 'revision' | 'generation' | 'high') =>
      Math.max(rows?.[key] ?? 0, known?.[key] ?? 0) + 1;
    const next = {
      ...emptyInventory(capsule, await readLife(session, capsule)),
      revision: beyond('revision'),
      generation: beyond('generation'),
      high: beyond('high'),
      previous: known?.head ?? GENESIS,
    };
    await write('whatever is there', next, held, beside);
  });
}
