interface Limits {
  /** The number of actions at the same time. */
  readonly atOnce: number;
  /** The number of results that may wait for an earlier one. */
  readonly ahead: number;
  readonly signal: AbortSignal;
}

interface Begun<R> {
  readonly result: Promise<R>;
  isOver: boolean;
}

/**
 * Yields the result of an action for each item, in the items' order, as soon as it and all earlier ones are there. Items are taken
 * only as results are wanted. After the first failure no more are begun, and running ones are aborted by their signal; the failure is
 * thrown when all have ended.
 */
export async function* inOrder<T, R>(
  items: AsyncIterable<T>,
  { atOnce, ahead, signal }: Limits,
  act: (one: T, signal: AbortSignal) => Promise<R>,
): AsyncGenerator<R> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const running = new Set<Promise<void>>();
  const waiting: Begun<R>[] = [];
  let failure: { readonly error: unknown } | undefined;
  const failed = (error: unknown) => {
    failure ??= { error };
    stop.abort(error);
  };
  try {
    for await (const item of items) {
      either.throwIfAborted();
      const one: Begun<R> = { result: act(item, either), isOver: false };
      waiting.push(one);
      const ended: Promise<void> = one.result
        .then(() => undefined, failed)
        .then(() => {
          one.isOver = true;
          running.delete(ended);
        });
      running.add(ended);
      if (running.size >= atOnce) await Promise.race(running);
      for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
        if (!next.isOver && waiting.length < ahead) break;
        yield await next.result;
        waiting.shift();
      }
    }
    for (const { result } of waiting) yield await result;
  } catch (error) {
    failed(error);
  } finally {
    stop.abort();
    await Promise.all(running);
  }
  if (failure !== undefined) throw failure.error;
}
