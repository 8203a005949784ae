import { ConcurrencyLimit, ServiceError } from '@space/broker-kit';
import type { S3Client } from '../upstream/types.ts';
import type { Capsule } from './allowance.ts';
import { listedUnder } from './listed.ts';
import { addMissing, missingParts } from './parts.ts';
import { beginCount, finishCount, lockUsage, type Registry } from './rows.ts';

/**
 * Counts take at most 1/20 of the time, so that a caller who deletes and writes at its limit waits little, and the
 * server has little extra work.
 */
const SHARE = 20;
const LEAST_GAP_MS = 1_000;
/** Pages of counts at the same time. A count is in line again for each, so that millions of objects delay nobody else's. */
const PAGES = { active: 4, queued: 1_000 };

export interface RecountOptions {
  readonly registry: Registry;
  readonly client: Pick<S3Client, 'list' | 'listParts'>;
  /** Bytes that an object or a folder costs in addition to its content. */
  readonly entryBytes: number;
  readonly now?: () => number;
}

/**
 * Lists a Capsule's objects, so that overwritten and deleted ones stop counting. A caller during a count shares its
 * result; a caller soon after one is told that nothing changed.
 */
export function createRecount(options: RecountOptions) {
  const { registry, client, entryBytes, now = () => performance.now() } = options;
  const running = new Map<string, Promise<boolean>>();
  const nextAt = new Map<string, number>();
  const turns = new ConcurrencyLimit(PAGES);

  async function sumOf(sums: ReturnType<typeof listedUnder>): Promise<number> {
    for (let sum = 0; ; ) {
      const turn = await turns.run(() => sums.next());
      if (turn === undefined) throw new ServiceError('unavailable', 'too many counts', { retryAfter: 1 });
      if (turn.value.done === true) return sum;
      sum = turn.value.value;
    }
  }

  /** Objects that are deleted during the count may still be counted; stored ones are never left out. */
  async function count({ capsulePrefix }: Capsule, flush: () => Promise<void>): Promise<boolean> {
    await flush();
    const begun = await registry.transaction((session) => beginCount(session, capsulePrefix));
    // Bytes in doubt may belong to an upload, whose row must count them before the doubt ends.
    const missing = begun.certain ? await missingParts(registry, client, capsulePrefix, entryBytes) : [];
    const listed = await sumOf(listedUnder(client, capsulePrefix, entryBytes));
    return registry.transaction(async (session) => {
      await lockUsage(session, capsulePrefix);
      if (!(await finishCount(session, capsulePrefix, begun, listed))) return false;
      await addMissing(session, capsulePrefix, missing);
      return true;
    });
  }

  return async (capsule: Capsule, flush: () => Promise<void>): Promise<boolean> => {
    const { capsulePrefix } = capsule;
    const current = running.get(capsulePrefix);
    if (current !== undefined) return current;
    if (now() < (nextAt.get(capsulePrefix) ?? 0)) return false;
    const begun = now();
    const run = count(capsule, flush).finally(() => {
      running.delete(capsulePrefix);
      nextAt.set(capsulePrefix, now() + Math.max(LEAST_GAP_MS, SHARE * (now() - begun)));
      if (nextAt.size > 10_000) nextAt.clear();
    });
    running.set(capsulePrefix, run);
    return run;
  };
}
