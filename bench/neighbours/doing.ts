/** How the parts of a hostile process work together. */
export interface HostileRun {
  readonly signal: AbortSignal;
  count(what: string): void;
}

/** So often a second, whatever becomes of those before; but never more than `most` at once. */
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
