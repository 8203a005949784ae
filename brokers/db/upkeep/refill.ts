import type { Context } from '../operations/context.ts';
import { addSpare, adoptSpares, countSpares, dropUnusable } from '../spares/pool.ts';
import type { Round } from './loop.ts';

/** Keeps the pool at its size: adopts strays, drops what cannot be issued, clones one at a time. */
export function refill(context: Context, size: number): Round {
  const { connections, spares, metrics } = context;

  async function ready(): Promise<number> {
    const count = await connections.session((session) => countSpares(session, spares));
    metrics.spares.set(count);
    return count;
  }

  return {
    name: 'spares',
    gapMs: 0,
    run: async (signal) => {
      await connections.session(async (session) => {
        await adoptSpares(session, spares);
        await dropUnusable(session, spares);
      });
      while ((await ready()) < size && !signal.aborted) await addSpare(connections, spares);
    },
  };
}
