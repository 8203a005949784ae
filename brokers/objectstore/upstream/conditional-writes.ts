import { S3Error } from './errors.ts';
import type { S3Client } from './types.ts';

/**
 * The number of concurrent writes. A server that checks a condition before it writes refuses a later write, but accepts
 * two at the same time; there are such servers. Several writers and rounds are needed, since two must meet between
 * check and write.
 */
const WRITERS = 6;
const RACES = 3;
/** An entity tag that no object has. */
const OTHER_TAG = '"00000000000000000000000000000000"';

/**
 * How a bucket's server violates conditions of writes, as the end of a sentence; undefined if it does not. The object
 * at `key` is left behind. Rejects with S3Error if a write fails for another reason.
 */
export async function brokenCondition(
  s3: Pick<S3Client, 'put' | 'delete'>,
  key: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  /** The entity tag of the written object; undefined if the condition refused the write. */
  const write = async (condition: Readonly<Record<string, string>>, text: string) => {
    try {
      return (await s3.put(key, Buffer.from(text), { headers: condition, signal })).etag;
    } catch (error) {
      if (isRefusal(error)) return undefined;
      throw error;
    }
  };
  const race = async (condition: Readonly<Record<string, string>>, round: string) => {
    const all = Array.from({ length: WRITERS }, (_, i) => write(condition, `${round} ${i}`));
    // Waits for all of them, so that none arrives after the object has been deleted.
    const ended = await Promise.allSettled(all);
    const failed = ended.find((one) => one.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    return ended.flatMap((one) => (one.status === 'fulfilled' && one.value !== undefined ? [one.value] : []));
  };

  const once = { 'if-none-match': '*' };
  let etag = await write(once, '1');
  if ((await write(once, '2')) !== undefined) return 'overwrites objects in spite of If-None-Match';
  if ((await write({ 'if-match': OTHER_TAG }, '3')) !== undefined)
    return 'overwrites objects in spite of If-Match';
  for (let i = 1; i <= RACES; i += 1) {
    if (etag !== undefined) {
      const written = await race({ 'if-match': etag }, `over ${i}`);
      if (written.length > 1)
        return 'lets several writes with the same If-Match through that come at one time';
    }
    await s3.delete(key, { signal });
    const written = await race(once, `new ${i}`);
    if (written.length > 1) return 'lets several writes with If-None-Match through that come at one time';
    etag = written[0];
  }
  return undefined;
}

/** Some servers answer 404 to a condition on an absent object. Any other error says nothing about conditions. */
function isRefusal(error: unknown): boolean {
  return error instanceof S3Error && error.kind === 'answered' && [404, 409, 412].includes(error.status);
}
