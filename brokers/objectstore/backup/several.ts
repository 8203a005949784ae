/**
 * Does something for each of many, so many at one time. The first failure is thrown when all that was begun has ended;
 * nothing more is begun, and what is under way hears of it by its signal.
 */
export async function several<T>(
  all: Iterable<T>,
  atOnce: number,
  signal: AbortSignal,
  act: (one: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const left = all[Symbol.iterator]();
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  let failure: { readonly error: unknown } | undefined;
  const work = async () => {
    for (let next = left.next(); next.done !== true; next = left.next()) {
      try {
        both.throwIfAborted();
        await act(next.value, both);
      } catch (error) {
        failure ??= { error };
        stop.abort(error);
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  if (failure !== undefined) throw failure.error;
}
