import { setTimeout as delay } from 'node:timers/promises';

/** Retries an act until the API server can carry it out. */
export async function retryUntilServed(act: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    const failed = await act().then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failed === undefined) return;
    if (tries === 120) throw failed;
    await delay(500);
  }
}
