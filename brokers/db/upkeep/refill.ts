import type { Round } from '@space/broker-kit';
import type { Context } from '../context.ts';
import { addSpare, adoptSpares, countSpares, dropSpare, unusableSpares } from '../spares/pool.ts';

/** The most clones of one round; the next round counts again. */
const CLONES_A_ROUND = 8;
/** After this many milliseconds without a request, a clone disturbs nobody. */
const QUIET_MS = 50;
/** Without such a pause, a clone is still made after this many milliseconds. */
const LONGEST_PAUSE_MS = 1_000;

/**
 * Keeps the pool at its size: ensures the template, adopts spares, drops those that cannot be issued, and clones one at
 * a time. A clone writes about four megabytes of WAL, so it waits for a quiet moment until the pool is nearly empty.
 */
export function refill(context: Context, size: number): Round {
  const { connections, spares, metrics, cloning } = context;
  const low = Math.ceil(size / 4);

  async function ready(): Promise<number> {
    const count = await connections.session((session) => countSpares(session, spares));
    metrics.spares.set(count);
    return count;
  }

  /** Requests that wait for their own clone come first; if there are enough spares, all other requests do, too. */
  const disturbs = (count: number) =>
    context.cloning.waiting > 0 || (count >= low && context.quietFor() < QUIET_MS);

  async function quiet(count: number, stopping: AbortSignal): Promise<void> {
    const begun = performance.now();
    while (!stopping.aborted && disturbs(count) && performance.now() - begun < LONGEST_PAUSE_MS) {
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS / 2));
    }
  }

  return {
    name: 'spares',
    gapMs: 0,
    run: async (stopping) => {
      await context.ensureTemplate();
      const unusable = await connections.session(async (session) => {
        await adoptSpares(session, spares);
        return unusableSpares(session, spares);
      });
      for (const name of unusable) {
        // A spare with a session in it does not prevent the drop of the others.
        await connections
          .dropping((session) => dropSpare(session, name))
          .catch((error: unknown) => context.log.warn({ spare: name, err: error }, 'spare not dropped'));
      }
      for (let clones = 0; clones < CLONES_A_ROUND; clones += 1) {
        const count = await ready();
        if (count >= size || stopping.aborted) return;
        await quiet(count, stopping);
        if (!stopping.aborted) await cloning.run(() => addSpare(connections, spares));
      }
      if ((await ready()) < size) context.nudge();
    },
  };
}
