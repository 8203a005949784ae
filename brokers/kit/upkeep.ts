import type { Logger } from './log.ts';
import type { ServiceMetrics } from './metrics.ts';

/** Work that is repeated after every nudge and interval, but not within the gap. */
export interface Round {
  readonly name: string;
  readonly gapMs: number;
  readonly run: (stopping: AbortSignal) => Promise<void>;
}

/** Runs the rounds of a service between its requests. */
export interface Upkeep {
  /** Requests a run soon; many nudges cause one run. */
  nudge(): void;
  stop(): Promise<void>;
}

export interface UpkeepOptions {
  readonly rounds: readonly Round[];
  readonly log: Logger;
  readonly intervalMs: number;
  readonly metrics: Pick<ServiceMetrics, 'upkeepEnds'>;
  readonly random?: () => number;
}

/**
 * Runs each round in a loop of its own, at once and then at an interval with jitter; a failed round runs again at the
 * next. A round that waits (for a blocked drop, or a store that does not answer) delays no other.
 */
export function startUpkeep({ rounds, ...options }: UpkeepOptions): Upkeep {
  const stopping = new AbortController();
  const loops = rounds.map((round) => startLoop(round, stopping.signal, options));
  return {
    nudge: () => {
      for (const { nudge } of loops) nudge();
    },
    stop: async () => {
      stopping.abort();
      for (const { nudge } of loops) nudge();
      await Promise.all(loops.map(({ ended }) => ended));
    },
  };
}

interface Loop {
  nudge(): void;
  readonly ended: Promise<void>;
}

function startLoop(round: Round, stopping: AbortSignal, options: Omit<UpkeepOptions, 'rounds'>): Loop {
  const { log, intervalMs, metrics, random = Math.random } = options;
  const lastEnd = metrics.upkeepEnds.labels(round.name);
  // For a round that never succeeds, the metric counts from the start.
  lastEnd.setToCurrentTime();
  let wake: () => void = () => undefined;
  let nudged = false;
  let lastRun = Number.NEGATIVE_INFINITY;

  async function loop(): Promise<void> {
    while (!stopping.aborted) {
      nudged = false;
      if (performance.now() - lastRun >= round.gapMs) {
        lastRun = performance.now();
        await look();
      }
      if (!nudged) await pause();
    }
  }

  async function look(): Promise<void> {
    try {
      await round.run(stopping);
      lastEnd.setToCurrentTime();
    } catch (error) {
      log.warn({ round: round.name, err: error }, 'upkeep failed');
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

  return {
    nudge: () => {
      nudged = true;
      wake();
    },
    ended: loop(),
  };
}
