import type { Round } from '@space/broker-kit';
import { pendingDrops } from '@space/broker-kit/principals';
import { type Context, ofCapsule } from '../context.ts';
import { finishDrop } from '../operations/finish.ts';

/** Finishes drops that were begun and abandoned. */
export function finishPending(context: Context, idleSeconds: number): Round {
  return pendingDrops(context, {
    table: 'database',
    nameColumn: 'name',
    idleSeconds,
    finish: ({ capsule, app, ...entry }, name) =>
      finishDrop(ofCapsule(context, capsule), entry, { capsule, app }, name),
  });
}
