import { randomBytes } from 'node:crypto';
import type { Round } from '@space/broker-kit';
import type { Context } from '../operations/context.ts';
import { finishDrop } from '../operations/finish.ts';

/** Takes up drops that nobody is finishing: their caller gave up, or the broker that ran them died. */
export function finishPending(context: Context, idleSeconds: number): Round {
  return {
    name: 'pending drops',
    gapMs: 5_000,
    run: async (signal) => {
      const pending = await context.connections.session((session) =>
        session.run<{ capsule: string; app: string; name: string; idle: boolean }>(
          'find pending drops',
          `SELECT capsule_id AS capsule, app_id AS app, name,
                  changed_at < clock_timestamp() - make_interval(secs => $1) AS idle
           FROM broker.database WHERE state = 'dropping' ORDER BY changed_at`,
          [idleSeconds],
        ),
      );
      context.metrics.dropsPending.set(pending.length);
      for (const { capsule, app, name, idle } of pending) {
        if (!idle || signal.aborted) continue;
        const traceId = randomBytes(16).toString('hex');
        const entry = { traceId, operation: 'upkeep.drop', authority: 'broker' };
        await finishDrop(context, entry, { capsule, app }, name).catch((error: unknown) =>
          context.log.warn({ trace_id: traceId, capsule, app, err: error }, 'drop still blocked'),
        );
      }
    },
  };
}
