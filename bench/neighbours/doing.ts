/** What the acts of a hostile process share: the signal that ends them, and the counter of their results. */
export interface HostileRun {
  readonly signal: AbortSignal;
  count(what: string): void;
}

/** Calls `once` at a constant rate, also while earlier calls are unfinished, but at most `most` at the same time. */
export function atRate(
  perSecond: number,
  { signal }: HostileRun,
  once: () => Promise<unknown>,
  most = 256,
): void {
  const began = performance.now();
  let begun = 0;
  let running = 0;
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - began) / 1_000) * perSecond);
    for (; begun < due; begun += 1) {
      if (running >= most) continue;
      running += 1;
      once()
        .catch(() => undefined)
        .finally(() => {
          running -= 1;
        });
    }
  }, 10);
  signal.addEventListener('abort', () => clearInterval(timer));
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
