/** Time and chance, injected so that a test decides them. */
export interface Clock {
  now(): number;
  /** Calls back once after `ms`; the answer cancels it. */
  after(ms: number, callback: () => void): () => void;
  random(): number;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
  random: Math.random,
};

/** Resolves after `ms`, or at once when the signal aborts; it never rejects. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal?.addEventListener('abort', end, { once: true });
  });
}
