import { randomBytes } from 'node:crypto';
import type { Round } from '@space/broker-kit';
import type { Context } from '../context.ts';
import { finishDrop } from '../principals/drop.ts';

/** Takes up drops that nobody is finishing: their caller gave up, or the broker that ran them died. */
export function finishPending(context: Context, idleSeconds: number): Round {
  return {
    name: 'pending drops',
    gapMs: 5_000,
    run: async (signal) => {
      const pending = await context.connections.session((session) =>
        session.run<{ capsule: string; app: string; place: string; idle: boolean }>(
          'find pending drops',
          `SELECT capsule_id AS capsule, app_id AS app, place,
                  changed_at < clock_timestamp() - make_interval(secs => $1) AS idle
           FROM broker.workload WHERE state = 'dropping' ORDER BY changed_at`,
          [idleSeconds],
        ),
      );
      context.metrics.dropsPending.set(pending.length);
      for (const { capsule, app, place, idle } of pending) {
        if (!idle || signal.aborted) continue;
        const traceId = randomBytes(16).toString('hex');
        const entry = { traceId, operation: 'upkeep.drop', authority: 'broker', capsule, app };
        await finishDrop(context, entry, { capsule, app }, place).catch((error: unknown) =>
          context.log.warn({ trace_id: traceId, capsule, app, err: error }, 'drop still blocked'),
        );
      }
    },
  };
}
