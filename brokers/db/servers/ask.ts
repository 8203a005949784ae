/** How long one who was answered waits for those who were asked, too. */
const GRACE_MS = 100;
/** How long one who was not waits. */
const PATIENCE_MS = 5_000;

/**
 * Asks all at once. Undefined for who fails or takes too long: once one has said what is `enough`, the others have a
 * moment left, so that a server that hangs does not keep the callers of another one.
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
      // As one that does not answer: whoever counts the answers sees that one is missing.
    }
  });
  try {
    await Promise.race([Promise.all(all), over]);
    // What comes later must not change what was returned.
    return [...answers];
  } finally {
    clearTimeout(patience);
    clearTimeout(grace);
  }
}
