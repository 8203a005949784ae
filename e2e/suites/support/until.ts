import { setTimeout as pause } from 'node:timers/promises';

const EVERY_MS = 200;
/** Ends a test that can no longer pass, also on a machine with twenty things to do for each of its processors. */
const LIMIT_MS = 600_000;
/**
 * What is left of it for the rest of a suite in which it ran out once. Most tests of a suite build on those before:
 * whole limits, one after the other, would end the run before it could say what failed.
 */
const LIMIT_AFTER_MS = 60_000;

let ranOut = false;

/** Asks until the answer is neither `undefined` nor `false`, and returns it. The error says what was last seen. */
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
