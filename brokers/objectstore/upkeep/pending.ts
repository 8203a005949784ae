import type { Round } from '@space/broker-kit';
import { pendingDrops } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { finishDrop } from '../principals/drop.ts';

/** Ends what somebody began to drop and left. */
export function finishPending(context: Context, idleSeconds: number): Round {
  return pendingDrops(context, {
    table: 'workload',
    nameColumn: 'place',
    idleSeconds,
    finish: (entry, place) => finishDrop(context, entry, entry, place),
  });
}
