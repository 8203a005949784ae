/** Milliseconds for further answers after a sufficient one. */
const GRACE_MS = 100;
/** Milliseconds for the first sufficient answer. */
const PATIENCE_MS = 5_000;

/**
 * Asks all at the same time; the answer is undefined for those that fail or take too long. After an answer that is
 * `enough`, the others have only a moment left, so that a server that hangs does not delay callers of another one.
 */
export async function askAll<T extends object>(
  asked: readonly Promise<T>[],
  enough: (answer: T) => boolean,
  { graceMs = GRACE_MS, patienceMs = PATIENCE_MS } = {},
): Promise<(T | undefined)[]> {
  const answers = asked.map((): T | undefined => undefined);
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  let grace: NodeJS.Timeout | undefined;
  const patience = setTimeout(end, patienceMs);
  const all = asked.map(async (answer, index) => {
    try {
      const value = await answer;
      answers[index] = value;
      if (enough(value)) grace ??= setTimeout(end, graceMs);
    } catch {
      // A failure counts as no answer, so the caller sees that one is missing.
    }
  });
  try {
    await Promise.race([Promise.all(all), over]);
    // Later answers must not change what was returned.
    return [...answers];
  } finally {
    clearTimeout(patience);
    clearTimeout(grace);
  }
}
