/**
 * Calls `late` after the time, but first lets the sockets have what arrived meanwhile: a process that could not run for a
 * while finds its timers due before it learns that a connection was opened in time. Returns a function that cancels it.
 */
export function deadline(ms: number, late: () => void): () => void {
  let last: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => {
    last = setImmediate(late);
  }, ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(last);
  };
}
