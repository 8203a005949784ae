/**
 * Calls `act` with a signal that aborts after `ms` or with one of `signals`. Timer and listeners are released when the
 * call ends, whereas an `AbortSignal.timeout` lives until its time is over, which adds up over thousands of short
 * calls.
 */
export async function withDeadline<T>(
  ms: number,
  signals: readonly (AbortSignal | undefined)[],
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(new DOMException(`not done in ${ms} ms`, 'TimeoutError')), ms);
  const releases = signals.flatMap((signal) => (signal === undefined ? [] : [follow(signal, ending)]));
  try {
    return await act(ending.signal);
  } finally {
    clearTimeout(timer);
    for (const release of releases) release();
  }
}

function follow(signal: AbortSignal, ending: AbortController): () => void {
  const end = () => ending.abort(signal.reason);
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });
  return () => signal.removeEventListener('abort', end);
}
