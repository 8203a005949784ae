import { ServiceError } from '@space/broker-kit';
import { S3Error } from '../upstream/errors.ts';
import { clearFolder } from '../upstream/folders.ts';
import type { S3Client } from '../upstream/types.ts';

export interface SweepParts {
  readonly s3: Pick<S3Client, 'list' | 'delete' | 'deleteMany'>;
  /** Aborts the unfinished uploads under a prefix. */
  readonly abortUploads: (prefix: string) => Promise<void>;
}

/** The maximum of one bulk deletion. */
const PAGE = 1_000;
/** The most folders that one sweep removes; if there are more, the next one continues. */
const MOST_FOLDERS = 1_000;
/** How often the same object may be the first of a page: a list may come late, and a late write may put it there again. */
const MOST_REPEATED = 10;
const PREFIX = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}\/)?$/;

/**
 * Deletes every object, folder and unfinished upload under a prefix, in order, until none is left. It may be
 * interrupted and repeated, also concurrently. Throws `unavailable` while the store does not answer.
 */
export function createSweep({ s3, abortUploads }: SweepParts) {
  /** Returns the first of the keys that it deleted; undefined where there was none. */
  async function deletePage(prefix: string, signal: AbortSignal | undefined): Promise<string | undefined> {
    const { objects } = await s3.list({ prefix, limit: PAGE }, { signal });
    if (objects.length === 0) return undefined;
    const keys = objects.map(({ key }) => key);
    if (!keys.every((key) => key.startsWith(prefix)))
      throw new Error('the store lists objects that were not requested');
    const left = await s3.deleteMany(keys, { signal });
    if (left.length > 0) throw unavailable('the store keeps objects that were deleted');
    return keys[0];
  }

  async function deletePages(prefix: string, signal: AbortSignal | undefined): Promise<void> {
    let last: string | undefined;
    let repeated = 0;
    for (;;) {
      const first = await deletePage(prefix, signal);
      if (first === undefined) return;
      repeated = first === last ? repeated + 1 : 0;
      if (repeated > MOST_REPEATED) throw unavailable('the store lists objects that were deleted');
      last = first;
      signal?.throwIfAborted();
    }
  }

  /** Deletes folders without objects, which failed writes have left and which no list of objects shows. */
  async function clearFolders(prefix: string, signal: AbortSignal | undefined): Promise<void> {
    let last: string | undefined;
    for (let i = 0; i < MOST_FOLDERS; i += 1) {
      const went = await clearFolder(s3, prefix, signal);
      // None is left, or only one that the server keeps.
      if (went === undefined || went === prefix || went === last) return;
      last = went;
    }
  }

  return async (prefix: string, stopping?: AbortSignal): Promise<void> => {
    // A damaged row must not empty the bucket.
    if (!PREFIX.test(prefix)) throw new Error('not a prefix of ours');
    try {
      await abortUploads(prefix);
      await deletePages(prefix, stopping);
      await clearFolders(prefix, stopping);
    } catch (error) {
      throw error instanceof S3Error ? unavailable('the store does not answer', error) : error;
    }
  };
}

function unavailable(message: string, cause?: unknown): ServiceError {
  return new ServiceError('unavailable', message, { cause, retryAfter: 5 });
}
