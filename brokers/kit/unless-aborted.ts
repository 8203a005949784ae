/**
 * The outcome of some work, or the signal's reason as soon as that is aborted, for work that itself hears of an abort
 * too late: undici does not let go of a request that waits in its queue. What the work brings afterwards goes to
 * `late`, which lets it go (a body that nobody reads would keep its connection).
 */
export function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal,
  late: (value: T) => void = () => undefined,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const abort = () => {
    reject(signal.reason);
    work.then(late, () => undefined);
  };
  if (signal.aborted) abort();
  else {
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  }
  return promise;
}
