import { DIRECTORY_WENT, S3Error } from './errors.ts';
import type { S3Client } from './types.ts';

/**
 * S3 servers that store objects as files have a directory for each prefix. versitygw creates them before it stores an
 * object and removes them with the last object below; if storing fails in between, they stay, and no list of objects
 * shows them.
 */

/** The most bytes of a file name. */
const LONGEST_SEGMENT = 255;
/** Bytes that versitygw adds to an object's name while it replaces another one. */
const REPLACING = 28;
/** The most levels of a key. */
const MOST_LEVELS = 512;

export type Folders = Pick<S3Client, 'list' | 'delete'>;

/** Whether a segment is longer than S3 servers that store objects as files permit. */
export function isLong(key: string): boolean {
  return key.split('/').some((segment) => Buffer.byteLength(segment) > LONGEST_SEGMENT);
}

/** Whether versitygw can store an object of the key, but cannot replace it. */
function isStoredOnce(key: string): boolean {
  const last = key.slice(key.lastIndexOf('/') + 1);
  return Buffer.byteLength(last) > LONGEST_SEGMENT - REPLACING;
}

export function keyTooLong(cause?: unknown): S3Error {
  return new S3Error('answered', 400, 'KeyTooLongError', { cause });
}

/**
 * Removes a directory without objects (its name ends in a slash), together with directories above that become empty. If
 * there are several below it, the first is removed. Returns the deepest one; undefined if there is an object, including
 * a marker. A marker that is created during the removal is removed, too, since no S3 server can remove only empty
 * directories.
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

/**
 * The client of a server that is trusted: what it says of directories leads to as many requests as these have levels. A
 * Capsule's own server could have any number made so.
 */
export function clearingDirectories(client: S3Client): S3Client {
  return {
    ...client,
    put: (key, body, options) =>
      client.put(key, body, options).catch(async (error: unknown) => {
        throw await directoryConflict(client, error, key, options?.signal);
      }),
    copy: (from, to, options) =>
      client.copy(from, to, options).catch(async (error: unknown) => {
        throw await directoryConflict(client, error, to, options?.signal);
      }),
  };
}

/**
 * The error for a failed put or copy. A server that stores prefixes as directories removes a directory with its last
 * object; if another object is written into it at that moment, versitygw answers as if the key were a directory's.
 * That is so only if the directory has objects in it: an empty one is removed here, and the request can be repeated.
 */
async function directoryConflict(
  client: Folders & Pick<S3Client, 'head'>,
  error: unknown,
  key: string,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  if (!(error instanceof S3Error) || error.code !== 'ExistingObjectIsDirectory') return error;
  const isThere = () =>
    client.head(key, { signal }).then(
      () => true,
      () => false,
    );
  try {
    if (isStoredOnce(key) && (await isThere())) return keyTooLong(error);
    const went = await clearFolder(client, `${key}/`, signal);
    return went === undefined ? error : new S3Error('answered', 503, DIRECTORY_WENT, { cause: error });
  } catch {
    return error;
  }
}
