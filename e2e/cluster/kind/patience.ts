import { setTimeout as delay } from 'node:timers/promises';

/** Tries again what the API server cannot do yet. */
export async function patiently(act: () => Promise<unknown>): Promise<void> {
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
