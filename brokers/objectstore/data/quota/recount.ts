import type { S3Client } from '../../upstream/client.ts';
import type { Capsule } from './allowance.ts';
import { finishCount, lockUsage, type Registry } from './rows.ts';

const PAGE = 1_000;

/** A count may take this share of the time: whoever deletes and writes at his limit waits little, but not for free. */
const SHARE = 20;
const LEAST_GAP_MS = 1_000;

/**
 * Lists what a Capsule really has, so that overwritten and deleted objects stop counting. Who asks while one runs
 * shares its outcome; who asks soon after one is told that nothing changed.
 */
export function createRecount(
  registry: Registry,
  client: Pick<S3Client, 'list'>,
  now: () => number = () => performance.now(),
) {
  const running = new Map<string, Promise<boolean>>();
  const nextAt = new Map<string, number>();

  /** What is deleted while the count runs may still be counted; never is anything stored left out. */
  async function count({ place }: Capsule, flush: () => Promise<void>): Promise<boolean> {
    await flush();
    const begun = await registry.transaction((session) => lockUsage(session, place));
    const listed = await bytesUnder(client, place);
    return registry.transaction(async (session) => {
      await lockUsage(session, place);
      return finishCount(session, place, begun, listed);
    });
  }

  return async (capsule: Capsule, flush: () => Promise<void>): Promise<boolean> => {
    const { place } = capsule;
    const current = running.get(place);
    if (current !== undefined) return current;
    if (now() < (nextAt.get(place) ?? 0)) return false;
    const begun = now();
    const run = count(capsule, flush).finally(() => {
      running.delete(place);
      nextAt.set(place, now() + Math.max(LEAST_GAP_MS, SHARE * (now() - begun)));
      if (nextAt.size > 10_000) nextAt.clear();
    });
    running.set(place, run);
    return run;
  };
}

async function bytesUnder(client: Pick<S3Client, 'list'>, prefix: string): Promise<number> {
  let bytes = 0;
  let token: string | undefined;
  do {
    const page = await client.list({ prefix, token, limit: PAGE });
    for (const { size } of page.objects) bytes += size;
    token = page.next;
  } while (token !== undefined);
  return bytes;
}
