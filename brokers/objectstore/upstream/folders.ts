import { S3Error } from './errors.ts';
import type { S3Client } from './types.ts';

/**
 * S3 servers that keep objects as files have a directory for each prefix. versitygw makes them before it stores an object
 * and removes them with the last one below; where storing fails in between, they stay, and no list of objects shows them.
 */

/** Bytes of a file's name. */
const LONGEST_SEGMENT = 255;
/** What versitygw needs of them for the name that an object has while it takes the place of another. */
const REPLACING = 28;
/** As many levels as a key may have. */
const MOST_LEVELS = 512;

export type Folders = Pick<S3Client, 'list' | 'delete'>;

/** Whether a segment is longer than S3 servers take that keep objects as files. */
export function isLong(key: string): boolean {
  return key.split('/').some((segment) => Buffer.byteLength(segment) > LONGEST_SEGMENT);
}

/** Whether versitygw stores an object of the key, and cannot store another in its place. */
export function isStoredOnce(key: string): boolean {
  const last = key.slice(key.lastIndexOf('/') + 1);
  return Buffer.byteLength(last) > LONGEST_SEGMENT - REPLACING;
}

export function keyTooLong(cause?: unknown): S3Error {
  return new S3Error('answered', 400, 'KeyTooLongError', { cause });
}

/**
 * Removes a directory (its name ends in a slash) in which there is no object: with the deepest one go all above that have
 * become empty. Where it has several below, the first goes. Answers the deepest; undefined where there is an object, be it a
 * marker. A marker that comes between the look and the removal goes with it: no S3 server removes what is empty alone.
 */
export async function clearFolder(
  { list, delete: remove }: Folders,
  folder: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
  if ((await list({ prefix: folder, limit: 1 }, { signal })).objects.length > 0) return undefined;
  let deepest = folder;
  for (let level = 0; level < MOST_LEVELS; level += 1) {
    const { prefixes } = await list({ prefix: deepest, delimiter: '/', limit: 1 }, { signal });
    const [below] = prefixes;
    if (below === undefined || below === deepest || !below.startsWith(deepest)) break;
    deepest = below;
  }
  await remove(deepest, { signal });
  return deepest;
}
