import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { audit } from '@space/broker-kit/principals';
import { beyond, compare } from './anchor.ts';
import type { Custody } from './custody.ts';
import { emptyInventory, type Inventory } from './inventory.ts';
import type { Standings } from './locked.ts';

/**
 * Accepts a restored inventory by an administrator's decision. It continues with numbers above all of either side, so
 * that none is used twice and whatever callers remember is outdated. False if registry and anchor agree.
 */
export function acceptRestore(custody: Custody, capsule: string, traceId: string): Promise<boolean> {
  return custody.exclusively(capsule, async (locked) => {
    const standings = await locked.load();
    if (compare(standings.stored, standings.anchored?.anchor) !== 'rollback') return false;
    const next = await continued(custody, capsule, standings);
    await locked.write(next, standings, (session) => note(session, capsule, traceId));
    return true;
  });
}

async function continued(
  custody: Custody,
  capsule: string,
  { stored, anchored }: Standings,
): Promise<Inventory> {
  const base: Inventory = stored ?? emptyInventory(capsule, 1);
  const numbers = beyond(base, anchored?.anchor);
  const { resealSet } = custody.seals();
  const sets = await Promise.all(
    base.sets.map((set) => resealSet(base, set, { generation: numbers.high })),
  ).catch((cause: unknown) => {
    throw new ServiceError('custody_unavailable', 'a restored set does not open', { cause });
  });
  return { ...base, sets, ...numbers };
}

function note(session: Session, capsule: string, traceId: string): Promise<void> {
  const operation = 'administrator.custody.accept';
  return audit(session, {
    traceId,
    operation,
    authority: 'administrator',
    capsule,
    outcome: 'restore accepted',
  });
}
