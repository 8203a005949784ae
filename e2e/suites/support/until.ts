import { setTimeout as pause } from 'node:timers/promises';

const EVERY_MS = 200;
const LIMIT_MS = 600_000;

/**
 * Asks until the answer is neither `undefined` nor `false`, and returns it. The limit is generous: it ends a test that
 * can no longer pass, and the error says what was last seen.
 */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined | false>,
  limit = LIMIT_MS,
): Promise<T> {
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
    if (performance.now() > end) throw new Error(`waited ${limit / 1000} s for: ${what}`, { cause: trouble });
    await pause(EVERY_MS);
  }
}
