import { createHash } from 'node:crypto';
import type { Logger } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import type { Capsule, Quota } from './allowance.ts';
import { isShort, lockUsage, type Registry, usedBytes } from './rows.ts';

/** Runs an action that deletes or overwrites the objects of some keys, and credits what they were charged. */
export type Ending = <T>(
  call: { readonly tenant: Capsule; readonly signal: AbortSignal },
  keys: readonly string[],
  act: () => Promise<T>,
  doubts?: Doubts<T>,
) => Promise<T>;

/** Why an object may still exist after a successful action. */
export interface Doubts<T> {
  /** The keys that the answer reports as failed. */
  readonly failed?: (result: T) => ReadonlySet<string>;
  /** The server may answer a repeated request with success without doing anything, so each key is read again. */
  readonly mayRepeat?: boolean;
}

export interface CreditOptions {
  readonly registry: Registry;
  readonly client: Pick<S3Client, 'head'>;
  readonly quota: Pick<Quota, 'isShort'>;
  readonly entryBytes: number;
  readonly log: Logger;
}

/**
 * The most objects of one Capsule that are credited between two counts. Each has a row, so that none is credited twice;
 * the next count handles the others.
 */
const MOST_CREDITED = 10_000;
/**
 * Milliseconds for reading keys, one after the other, so that a request uses one connection at a time. The next count
 * handles the rest.
 */
const LOOK_MS = 5_000;

/**
 * Credits deleted and overwritten objects at once if a Capsule is short of quota; otherwise the next count is early
 * enough. No more is credited than was charged and has ended: each caller reads the object before it ends it, and of
 * several that read the same object only the first is credited. A count that ends after the read may not include the
 * object any more, so it voids the credit, before or after it is given. After a crash, or without the registry, the
 * next count handles the object.
 */
export function createEnding({ registry, client, quota, entryBytes, log }: CreditOptions): Ending {
  async function isShortNow({ capsulePrefix, quotaBytes }: Capsule): Promise<boolean> {
    return (
      quota.isShort(capsulePrefix) ??
      isShort(quotaBytes, quotaBytes - (await usedBytes(registry.lookup, capsulePrefix)))
    );
  }

  async function countNumberOf(capsulePrefix: string): Promise<number | undefined> {
    const [row] = await registry.lookup.run<{ number: number }>(
      'read count number',
      'SELECT count_number AS number FROM broker.object_usage WHERE place = $1',
      [capsulePrefix],
    );
    return row?.number;
  }

  async function objectAt(key: string, signal: AbortSignal): Promise<Looked | undefined> {
    try {
      const { headers } = await client.head(key, { signal });
      const object = identityOf(key, headers);
      if (object === undefined) return undefined;
      // Its folders may contain other objects.
      return { key, object, bytes: Number(headers['content-length'] ?? 0) + entryBytes };
    } catch (error) {
      if (error instanceof S3Error && error.status === 404) return undefined;
      throw error;
    }
  }

  /**
   * The object at a key. If it is replaced while versitygw looks at it, the answer has the size of one state and the entity
   * tag of the next: that would be credited in addition to both. So it is looked at twice.
   */
  async function settledAt(key: string, signal: AbortSignal): Promise<Looked | undefined> {
    const [one, two] = [await objectAt(key, signal), await objectAt(key, signal)];
    return one !== undefined && two?.object.equals(one.object) && two.bytes === one.bytes ? one : undefined;
  }

  /** The present objects, and the number of the last count; undefined if nothing is credited. */
  async function look(capsule: Capsule, keys: readonly string[], signal: AbortSignal) {
    const looked: Looked[] = [];
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
    let countNumber: number | undefined;
    try {
      if (!(await isShortNow(capsule))) return undefined;
      // The number is read first: the objects exist after this count, and every later count voids the credit.
      countNumber = await countNumberOf(capsule.capsulePrefix);
      if (countNumber === undefined) return undefined;
      for (const key of new Set(keys)) looked.push(...toArray(await settledAt(key, inTime)));
    } catch (error) {
      if (!(error instanceof S3Error || inTime.aborted))
        log.warn({ err: error }, 'the check for uploads that have to end failed');
    }
    return countNumber === undefined || looked.length === 0 ? undefined : { countNumber, looked };
  }

  /** The objects that no longer exist or were replaced. */
  async function gone(looked: readonly Looked[], signal: AbortSignal): Promise<readonly Looked[]> {
    const ended: Looked[] = [];
    for (const one of looked) {
      const now = await objectAt(one.key, signal);
      if (now === undefined || !now.object.equals(one.object)) ended.push(one);
    }
    return ended;
  }

  return async ({ tenant, signal }, keys, act, { failed, mayRepeat = false } = {}) => {
    const found = await look(tenant, keys, signal);
    const result = await act();
    if (found === undefined) return result;
    const left = failed?.(result);
    const ended = found.looked.filter(({ key }) => left?.has(key) !== true);
    try {
      const sure = mayRepeat ? await gone(ended, AbortSignal.timeout(LOOK_MS)) : ended;
      if (sure.length > 0)
        await registry.transaction((session) =>
          credit(session, tenant.capsulePrefix, found.countNumber, sure),
        );
    } catch (error) {
      log.warn({ err: error }, 'ended uploads count until the next count');
    }
    return result;
  };
}

const toArray = <T>(one: T | undefined): readonly T[] => (one === undefined ? [] : [one]);

interface Looked {
  readonly key: string;
  readonly object: Buffer;
  readonly bytes: number;
}

/**
 * Distinguishes an object from others with its key. Equal objects of the same second count as one, so that only one of
 * them is credited.
 */
function identityOf(key: string, headers: Headers): Buffer | undefined {
  const { etag, 'last-modified': modified } = headers;
  if (etag === undefined || modified === undefined) return undefined;
  return createHash('sha256')
    .update(JSON.stringify([key, etag, modified]))
    .digest();
}

async function credit(
  session: Session,
  capsulePrefix: string,
  countNumber: number,
  ended: readonly Looked[],
): Promise<void> {
  const usage = await lockUsage(session, capsulePrefix);
  if (usage.countNumber !== countNumber) return;
  await session.run(
    'credit objects',
    `WITH ended AS (SELECT * FROM unnest($2::bytea[], $3::bigint[]) AS ended (object, bytes)),
     first AS (
       INSERT INTO broker.object_credit (place, count_number, object)
       SELECT $1, $4, object FROM ended LIMIT (
         SELECT greatest(0, $5 - CASE WHEN credited_in = count_number THEN credited_objects ELSE 0 END)
         FROM broker.object_usage WHERE place = $1)
       ON CONFLICT DO NOTHING RETURNING object
     ),
     given AS (SELECT sum(bytes) AS bytes, count(*) AS objects FROM first JOIN ended USING (object))
     UPDATE broker.object_usage
     SET credited = given.bytes + CASE WHEN credited_in = count_number THEN credited ELSE 0 END,
         credited_objects = given.objects + CASE WHEN credited_in = count_number THEN credited_objects ELSE 0 END,
         credited_in = count_number
     FROM given WHERE place = $1 AND given.objects > 0`,
    [
      capsulePrefix,
      ended.map(({ object }) => object),
      ended.map(({ bytes }) => bytes),
      countNumber,
      MOST_CREDITED,
    ],
  );
}
