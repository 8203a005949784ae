import { ConcurrencyLimit } from '@space/broker-kit';
import type { S3Client } from '../upstream/types.ts';
import type { Capsule } from './allowance.ts';
import { listedUnder } from './listed.ts';
import { addMissing, missingParts } from './parts.ts';
import { beginCount, finishCount, lockUsage, type Registry } from './rows.ts';

/** A count may take this share of the time: whoever deletes and writes at his limit waits little, but not for free. */
const SHARE = 20;
const LEAST_GAP_MS = 1_000;
/** Counts of different Capsules at one time; more wait. */
const COUNTS = { active: 4, queued: 1_000 };

export interface RecountOptions {
  readonly registry: Registry;
  readonly client: Pick<S3Client, 'list' | 'listParts'>;
  /** What an object, and a folder, costs beside its bytes. */
  readonly entryBytes: number;
  readonly now?: () => number;
}

/**
 * Lists what a Capsule really has, so that overwritten and deleted objects stop counting. Who asks while one runs
 * shares its outcome; who asks soon after one is told that nothing changed.
 */
export function createRecount(options: RecountOptions) {
  const { registry, client, entryBytes, now = () => performance.now() } = options;
  const running = new Map<string, Promise<boolean>>();
  const nextAt = new Map<string, number>();
  const slots = new ConcurrencyLimit(COUNTS);

  /** What is deleted while the count runs may still be counted; never is anything stored left out. */
  async function count({ capsulePrefix }: Capsule, flush: () => Promise<void>): Promise<boolean> {
    await flush();
    const begun = await registry.transaction((session) => beginCount(session, capsulePrefix));
    // What was in doubt may be a part of an upload: before the doubt ends, its row must count it.
    const missing = begun.certain ? await missingParts(registry, client, capsulePrefix, entryBytes) : [];
    let listed = 0;
    for await (const sum of listedUnder(client, capsulePrefix, entryBytes)) listed = sum;
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
    const run = slots
      .run(() => count(capsule, flush))
      .then((turn) => turn?.value ?? false)
      .finally(() => {
        running.delete(capsulePrefix);
        nextAt.set(capsulePrefix, now() + Math.max(LEAST_GAP_MS, SHARE * (now() - begun)));
        if (nextAt.size > 10_000) nextAt.clear();
      });
    running.set(capsulePrefix, run);
    return run;
  };
}
