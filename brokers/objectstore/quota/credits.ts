import { createHash } from 'node:crypto';
import type { Logger } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import type { Capsule, Quota } from './allowance.ts';
import { isShort, lockUsage, type Registry, usedBytes } from './rows.ts';

/** Does what ends the object of a key, by deletion or by another in its place, and credits what that object was charged. */
export type Ending = <T>(
  call: { readonly tenant: Capsule; readonly signal: AbortSignal },
  key: string,
  act: () => Promise<T>,
) => Promise<T>;

export interface CreditOptions {
  readonly registry: Registry;
  readonly client: Pick<S3Client, 'head'>;
  readonly quota: Pick<Quota, 'isShort'>;
  readonly entryBytes: number;
  readonly log: Logger;
}

/** Objects of one Capsule that are credited between two counts: each is a row, so that none is credited twice. The next count finds the others. */
const MOST_CREDITED = 10_000;

/**
 * What is deleted or overwritten stops counting at once where a Capsule is short of room; elsewhere the next count is
 * early enough. Never is more credited than was charged and has ended: the object is looked at before it is ended, by
 * whoever ends it, and of all who looked at the same one the first is credited. A count that ends after the look may
 * have left the object out already, so it voids the credit, before it is given or after. A crash, or a registry that is
 * away, loses the credit until the next count.
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

  /** What is there, and the count that it was there after; undefined where it gives nothing back. */
  async function look(capsule: Capsule, key: string, signal: AbortSignal): Promise<Looked | undefined> {
    try {
      if (!(await isShortNow(capsule))) return undefined;
      // First: the object is there after this count, and whatever ends later voids the credit.
      const countNumber = await countNumberOf(capsule.capsulePrefix);
      if (countNumber === undefined) return undefined;
      const { headers } = await client.head(key, { signal });
      const object = identityOf(key, headers);
      if (object === undefined) return undefined;
      // Its folders may hold other objects.
      return { countNumber, object, bytes: Number(headers['content-length'] ?? 0) + entryBytes };
    } catch (error) {
      if (!(error instanceof S3Error || signal.aborted))
        log.warn({ err: error }, 'what is to end was not looked at');
      return undefined;
    }
  }

  return async ({ tenant, signal }, key, act) => {
    const looked = await look(tenant, key, signal);
    const result = await act();
    if (looked === undefined) return result;
    await registry
      .transaction((session) => credit(session, tenant.capsulePrefix, looked))
      .catch((error: unknown) => log.warn({ err: error }, 'what has ended counts until the next count'));
    return result;
  };
}

interface Looked {
  readonly countNumber: number;
  readonly object: Buffer;
  readonly bytes: number;
}

/**
 * Tells an object from others that had its key. Equal ones of the same second are taken for one: then only one of them
 * is credited.
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
  { countNumber, object, bytes }: Looked,
): Promise<void> {
  const usage = await lockUsage(session, capsulePrefix);
  if (usage.countNumber !== countNumber) return;
  await session.run(
    'credit object',
    `WITH first AS (
       INSERT INTO broker.object_credit (place, count_number, object)
       SELECT place, count_number, $2 FROM broker.object_usage
       WHERE place = $1 AND (credited_in <> count_number OR credited_objects < $4)
       ON CONFLICT DO NOTHING RETURNING 1
     )
     UPDATE broker.object_usage
     SET credited = $3 + CASE WHEN credited_in = count_number THEN credited ELSE 0 END,
         credited_objects = 1 + CASE WHEN credited_in = count_number THEN credited_objects ELSE 0 END,
         credited_in = count_number
     WHERE place = $1 AND EXISTS (SELECT FROM first)`,
    [capsulePrefix, object, bytes, MOST_CREDITED],
  );
}
