/**
 * `Promise.all` that waits for every promise even if one fails, then throws the first error in order. When a reconcile
 * has ended, so has everything that it began, and it cannot interfere with the next reconcile of the key.
 */
export async function together<const T extends readonly unknown[]>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const ended = await Promise.allSettled(promises);
  const failed = ended.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
  return Promise.all(promises);
}
