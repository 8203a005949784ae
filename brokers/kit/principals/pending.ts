import { randomBytes } from 'node:crypto';
import type { Logger } from '../log.ts';
import type { Connections } from '../postgres/connections.ts';
import type { Round } from '../upkeep.ts';
import type { Undecided } from './capsules.ts';

interface PendingContext {
  readonly connections: Connections;
  readonly log: Logger;
  readonly metrics: { readonly dropsPending: { set(count: number): void } };
}

interface PendingOptions {
  /** The broker's table of workloads, in the schema `broker`. */
  readonly table: string;
  /** The column of that table with the name of what is dropped together with a workload. */
  readonly nameColumn: string;
  /** After this many seconds without progress, a drop is continued. */
  readonly idleSeconds: number;
  finish(entry: Undecided & { readonly app: string }, name: string): Promise<void>;
}

/** Finishes drops that nobody works on, since their caller gave up or the broker that ran them died. */
export function pendingDrops(context: PendingContext, options: PendingOptions): Round {
  const { table, nameColumn, idleSeconds, finish } = options;
  return {
    name: 'pending drops',
    gapMs: 5_000,
    run: async (signal) => {
      const pending = await context.connections.session((session) =>
        session.read<{ capsule: string; app: string; name: string; idle: boolean }>(
          'find pending drops',
          `SELECT capsule_id AS capsule, app_id AS app, ${nameColumn} AS name,
                  changed_at < clock_timestamp() - make_interval(secs => $1) AS idle
           FROM broker.${table} WHERE state = 'dropping' ORDER BY changed_at`,
          [idleSeconds],
        ),
      );
      context.metrics.dropsPending.set(pending.length);
      for (const { capsule, app, name, idle } of pending) {
        if (!idle || signal.aborted) continue;
        const traceId = randomBytes(16).toString('hex');
        const entry = { traceId, operation: 'upkeep.drop', authority: 'broker', capsule, app };
        await finish(entry, name).catch((error: unknown) =>
          context.log.warn({ trace_id: traceId, capsule, app, err: error }, 'drop still blocked'),
        );
      }
    },
  };
}
