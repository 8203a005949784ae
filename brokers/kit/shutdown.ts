import type { Logger } from './log.ts';

/** One step of a shutdown, with the time that it may take. */
export interface Phase {
  readonly name: string;
  readonly timeoutMs: number;
  readonly run: () => Promise<void>;
}

/**
 * Runs the phases in order. One that fails or takes too long is logged, and the next one still runs. Returns whether
 * all succeeded.
 */
export async function shutDown(phases: readonly Phase[], log: Logger): Promise<boolean> {
  let clean = true;
  for (const { name, timeoutMs, run } of phases) {
    const { promise: expired, resolve: expire } = Promise.withResolvers<'expired'>();
    const timer = setTimeout(() => expire('expired'), timeoutMs);
    try {
      if ((await Promise.race([run(), expired])) === 'expired') {
        clean = false;
        log.warn({ phase: name, timeout_ms: timeoutMs }, 'shutdown phase timed out');
      }
    } catch (error) {
      clean = false;
      log.warn({ phase: name, err: error }, 'shutdown phase failed');
    } finally {
      clearTimeout(timer);
    }
  }
  return clean;
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let stopping = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (stopping) process.exit(1);
        stopping = true;
        resolve(signal);
      });
    }
  });
}
