import { S3Error } from './errors.ts';
import type { S3Client } from './types.ts';

/**
 * Writes that race. A server that looks first and writes then refuses a second write that comes later, and lets two through that
 * come at one time; several servers do. So many at once, and so often, because two must meet between the look and the write.
 */
const WRITERS = 6;
const RACES = 3;
/** No object has it. */
const OTHER_TAG = '"00000000000000000000000000000000"';

/**
 * What a bucket's server does against the conditions of writes, in words that end a sentence; undefined where it keeps
 * them. Leaves the object at `key` behind. Rejects with S3Error where a write failed for another reason than its condition.
 */
export async function brokenCondition(
  s3: Pick<S3Client, 'put' | 'delete'>,
  key: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  /** The entity tag of what was written; undefined where the condition forbade it. */
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
    // All have ended before the first failure is told, so that none lands when the object is deleted already.
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

/** 404: some say so of a condition on what is not there. Any other failure is no finding about conditions. */
function isRefusal(error: unknown): boolean {
  return error instanceof S3Error && error.kind === 'answered' && [404, 409, 412].includes(error.status);
}
