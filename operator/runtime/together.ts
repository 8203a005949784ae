/**
 * `Promise.all` that waits for every promise, also when one has failed; then it throws the first failure in order. What
 * a reconcile began has ended when the reconcile has, so that the next one of the key never meets it.
 */
export async function together<const T extends readonly unknown[]>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const ended = await Promise.allSettled(promises);
  const failed = ended.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
  return Promise.all(promises);
}
