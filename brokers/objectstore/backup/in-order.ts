interface Limits {
  /** The number of actions at the same time. */
  readonly atOnce: number;
  /** The number of results that may wait for an earlier one. */
  readonly ahead: number;
  readonly signal: AbortSignal;
}

/**
 * Yields the result of an action for each item, in the items' order. Items are taken only as results are wanted. After the first
 * failure no more are begun, and running ones are aborted by their signal; the failure is thrown when all have ended.
 */
export async function* inOrder<T, R>(
  items: AsyncIterable<T>,
  { atOnce, ahead, signal }: Limits,
  act: (one: T, signal: AbortSignal) => Promise<R>,
): AsyncGenerator<R> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const running = new Set<Promise<void>>();
  const results: Promise<R>[] = [];
  let failure: { readonly error: unknown } | undefined;
  const failed = (error: unknown) => {
    failure ??= { error };
    stop.abort(error);
  };
  try {
    for await (const item of items) {
      either.throwIfAborted();
      const result = act(item, either);
      results.push(result);
      const ended: Promise<void> = result
        .then(() => undefined, failed)
        .then(() => void running.delete(ended));
      running.add(ended);
      if (running.size >= atOnce) await Promise.race(running);
      for (let next = results[0]; next !== undefined && results.length >= ahead; next = results[0]) {
        yield await next;
        results.shift();
      }
    }
    for (const result of results) yield await result;
  } catch (error) {
    failed(error);
  } finally {
    stop.abort();
    await Promise.all(running);
  }
  if (failure !== undefined) throw failure.error;
}
