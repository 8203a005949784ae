import type { Logger } from './log.ts';

/** Something to look after at every nudge and interval, but not again within the gap. */
export interface Round {
  readonly name: string;
  readonly gapMs: number;
  readonly run: (stopping: AbortSignal) => Promise<void>;
}

/** What keeps the broker's own house between requests. */
export interface Upkeep {
  /** Looks soon; many nudges make one round. */
  nudge(): void;
  stop(): Promise<void>;
}

export interface UpkeepOptions {
  readonly rounds: readonly Round[];
  readonly log: Logger;
  readonly intervalMs: number;
  readonly random?: () => number;
}

/** Runs the rounds one after the other, at once and then at an interval with jitter; a failure waits for the next. */
export function startUpkeep({ rounds, log, intervalMs, random = Math.random }: UpkeepOptions): Upkeep {
  const stopping = new AbortController();
  let wake: () => void = () => undefined;
  let nudged = false;
  const lastRun = new Map<Round, number>();

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      nudged = false;
      for (const round of rounds) {
        if (stopping.signal.aborted) return;
        if (performance.now() - (lastRun.get(round) ?? Number.NEGATIVE_INFINITY) < round.gapMs) continue;
        lastRun.set(round, performance.now());
        await round
          .run(stopping.signal)
          .catch((error: unknown) => log.warn({ round: round.name, err: error }, 'upkeep failed'));
      }
      if (!nudged) await pause();
    }
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, intervalMs * (0.75 + random() / 2));
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  const ended = loop();
  return {
    nudge: () => {
      nudged = true;
      wake();
    },
    stop: () => {
      stopping.abort();
      wake();
      return ended;
    },
  };
}
