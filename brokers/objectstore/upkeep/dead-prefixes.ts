import type { Logger, Round } from '@space/broker-kit';
import type { PrincipalsContext } from '../principals/context.ts';

/** The longest duration of an admitted write; afterwards nothing can arrive any more. */
const LATE_WRITES = '1 day';
const PREFIXES_A_ROUND = 100;

/**
 * Sweeps dead prefixes again, every hour for a day: a write that was under way at the drop may have come later. One that
 * cannot be swept keeps no other, and is tried again in an hour until it could.
 */
export function sweepDeadPrefixes(
  context: Pick<PrincipalsContext, 'connections' | 'sweep'> & { readonly log: Logger },
): Round {
  return {
    name: 'dead places',
    gapMs: 60_000,
    run: async (signal) => {
      const due = await context.connections.session((session) =>
        session.run<{ prefix: string; last: boolean }>(
          'find dead places',
          `SELECT place AS prefix, dead_at < clock_timestamp() - $1::interval AS last FROM broker.dead_place
           WHERE coalesce(swept_at, dead_at) < clock_timestamp() - interval '1 hour' ORDER BY dead_at LIMIT $2`,
          [LATE_WRITES, PREFIXES_A_ROUND],
        ),
      );
      const failures: unknown[] = [];
      for (const { prefix, last } of due) {
        if (signal.aborted) return;
        const failed = await context.sweep(prefix, signal).then(
          () => false,
          (error: unknown) => {
            failures.push(error);
            context.log.warn({ place: prefix, err: error }, 'dead place not swept');
            return true;
          },
        );
        await context.connections.session((session) =>
          last && !failed
            ? session.run('forget dead place', 'DELETE FROM broker.dead_place WHERE place = $1', [prefix])
            : session.run(
                'note sweep',
                'UPDATE broker.dead_place SET swept_at = clock_timestamp() WHERE place = $1',
                [prefix],
              ),
        );
      }
      if (failures.length > 0) throw failures[0];
    },
  };
}
