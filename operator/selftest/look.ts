import { setTimeout as pause } from 'node:timers/promises';
import type { Check } from './checks.ts';

const AGAIN_MS = 2_000;
/** The longest that all checks may take once. */
const ROUND_MS = 60_000;

/**
 * Repeats the checks until all pass, which after an installation takes a minute, or until the time is over. An answer
 * with an error counts as a check that failed: a restart of the API server passes, and so does the moment until it goes
 * by new roles.
 */
export async function look(
  checksOnce: (signal: AbortSignal) => Promise<readonly Check[]>,
  { seconds, againMs = AGAIN_MS }: { readonly seconds: number; readonly againMs?: number },
): Promise<readonly Check[]> {
  const end = performance.now() + seconds * 1_000;
  for (;;) {
    const round = checksOnce(AbortSignal.timeout(ROUND_MS));
    const checks = await round.catch(() => undefined);
    if (checks?.every(({ faults }) => faults.length === 0) || performance.now() > end) return round;
    await pause(againMs);
  }
}
