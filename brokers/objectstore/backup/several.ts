/**
 * Runs an action for each item, at most so many at the same time. After the first failure no more are begun, and
 * running ones are aborted by their signal; the failure is thrown when all have ended.
 */
export async function several<T>(
  all: Iterable<T> | AsyncIterable<T>,
  atOnce: number,
  signal: AbortSignal,
  act: (one: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const left = Symbol.asyncIterator in all ? all[Symbol.asyncIterator]() : all[Symbol.iterator]();
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  let failure: { readonly error: unknown } | undefined;
  const work = async () => {
    try {
      for (let next = await left.next(); next.done !== true; next = await left.next()) {
        both.throwIfAborted();
        await act(next.value, both);
      }
    } catch (error) {
      failure ??= { error };
      stop.abort(error);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  await left.return?.();
  if (failure !== undefined) throw failure.error;
}
