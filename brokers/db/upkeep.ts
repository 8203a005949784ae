import type { Context } from './operations/context.ts';
import { addSpare, adoptSpares, countSpares, dropUnusable } from './spares/pool.ts';

/** What keeps the broker's own house between requests. Failures wait for the next round. */
export interface Upkeep {
  /** Looks soon; many nudges make one round. */
  nudge(): void;
  stop(): Promise<void>;
}

export interface Round {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** Runs the rounds one after the other: at once, when nudged, and at an interval with jitter. */
export function startUpkeep(
  rounds: readonly Round[],
  context: Pick<Context, 'log'>,
  intervalMs: number,
): Upkeep {
  let wake: () => void = () => undefined;
  let nudged = false;
  let stopped = false;

  async function loop(): Promise<void> {
    while (!stopped) {
      nudged = false;
      for (const round of rounds) {
        if (stopped) return;
        await round
          .run()
          .catch((error: unknown) => context.log.warn({ round: round.name, err: error }, 'upkeep failed'));
      }
      if (nudged || stopped) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, intervalMs * (0.75 + Math.random() / 2));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  const ended = loop();
  return {
    nudge: () => {
      nudged = true;
      wake();
    },
    stop: () => {
      stopped = true;
      wake();
      return ended;
    },
  };
}

/** Keeps the pool at its size: adopts strays, drops what cannot be issued, clones one at a time. */
export function refill(context: Context, size: number): Round {
  return {
    name: 'spares',
    run: async () => {
      const { connections, spares } = context;
      await connections.session(async (session) => {
        await adoptSpares(session, spares);
        await dropUnusable(session, spares);
      });
      for (let count = await ready(); count < size; count = await ready())
        await addSpare(connections, spares);

      function ready(): Promise<number> {
        return connections.session((session) => countSpares(session, spares));
      }
    },
  };
}
