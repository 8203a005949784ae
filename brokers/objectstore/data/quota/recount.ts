import type { S3Client } from '../../upstream/client.ts';
import type { Capsule } from './allowance.ts';
import { finishCount, lockUsage, type Registry } from './rows.ts';

const PAGE = 1_000;

/**
 * Lists what a Capsule really has, so that overwritten and deleted objects stop counting. At most once a minute for
 * each; who asks in between, or while one runs, shares its outcome.
 */
export function createRecount(
  registry: Registry,
  client: Pick<S3Client, 'list'>,
  { everyMs = 60_000, now = () => performance.now() }: { everyMs?: number; now?: () => number } = {},
) {
  const running = new Map<string, Promise<boolean>>();
  const doneAt = new Map<string, number>();

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
    if (now() - (doneAt.get(place) ?? Number.NEGATIVE_INFINITY) < everyMs) return false;
    const run = count(capsule, flush).finally(() => {
      running.delete(place);
      doneAt.set(place, now());
      if (doneAt.size > 10_000) doneAt.clear();
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
