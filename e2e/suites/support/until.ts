import { setTimeout as pause } from 'node:timers/promises';

const EVERY_MS = 200;
/**
 * The limit ends a test that can no longer pass. It is long enough for a machine with twenty tasks for each of its
 * processors.
 */
const LIMIT_MS = 600_000;
/**
 * The limit for the rest of a suite in which a wait has already failed. Most tests of a suite depend on earlier ones,
 * and with full limits, one after the other, the run would end before it could say what failed.
 */
const LIMIT_AFTER_MS = 60_000;

let ranOut = false;

/**
 * Repeats the call until its result is neither `undefined` nor `false`, and returns that. The error says what was
 * last seen.
 */
export async function until<T>(what: string, ask: () => Promise<T | undefined | false>): Promise<T> {
  const limit = ranOut ? LIMIT_AFTER_MS : LIMIT_MS;
  const end = performance.now() + limit;
  let trouble: unknown;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
      trouble = undefined;
    } catch (error) {
      trouble = error;
    }
    if (performance.now() > end) break;
    await pause(EVERY_MS);
  }
  ranOut = true;
  const seen = trouble instanceof Error ? `; last seen: ${trouble.message}` : '';
  throw new Error(`waited ${limit / 1000} s for: ${what}${seen}`, { cause: trouble });
}
