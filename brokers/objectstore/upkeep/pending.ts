import type { Round } from '@space/broker-kit';
import { pendingDrops } from '@space/broker-kit/principals';
import type { PrincipalsContext } from '../principals/context.ts';
import { finishDrop } from '../principals/drop.ts';

/** Finishes drops that were begun and abandoned. */
export function finishPending(
  context: PrincipalsContext & Parameters<typeof pendingDrops>[0],
  idleSeconds: number,
): Round {
  return pendingDrops(context, {
    table: 'workload',
    nameColumn: 'place',
    idleSeconds,
    finish: (entry, prefix) => finishDrop(context, entry, entry, prefix),
  });
}
