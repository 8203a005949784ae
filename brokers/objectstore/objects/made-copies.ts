import { isDeepStrictEqual } from 'node:util';
import { S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import { isStoredWith } from './object-headers.ts';
import type { PhysicalKey } from './object-key.ts';
import { isGone, LOOK_MS, type Source } from './writer.ts';

type Copy = Awaited<ReturnType<S3Client['copy']>>;

interface Asked {
  readonly source: Source;
  readonly to: PhysicalKey;
  readonly headers: Headers;
}

/**
 * Copies an object. If its source is deleted meanwhile, versitygw makes the copy and then says that it has failed: without the
 * source's headers if that happened early. So the copy is looked at, since `not_found` would say that nothing was made.
 */
export async function copyWhole(client: S3Client, { source, to, headers }: Asked): Promise<Copy> {
  try {
    return await client.copy(source.key, to, { headers });
  } catch (error) {
    if (!(await isGone(client, source.key, error))) throw error;
    const made = await presentAt(client, to);
    // The next look at the source says that there is none.
    if (made === undefined) throw error;
    const { etag, 'last-modified': modified } = made;
    const isWhole = headers['x-amz-metadata-directive'] === 'REPLACE' || isLike(made, source.found);
    if (etag === undefined || etag !== source.found['etag'] || !isWhole)
      throw new S3Error('answered', 502, 'SourceDeleted', { cause: error });
    return { etag, modified: isoOf(modified) };
  }
}

async function presentAt(client: S3Client, key: PhysicalKey): Promise<Headers | undefined> {
  try {
    return (await client.head(key, { signal: AbortSignal.timeout(LOOK_MS) })).headers;
  } catch (error) {
    if (error instanceof S3Error && error.status === 404) return undefined;
    throw error;
  }
}

const isLike = (one: Headers, other: Headers): boolean =>
  isDeepStrictEqual(storedWith(one), storedWith(other));

const storedWith = (headers: Headers): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isStoredWith(name)));

/** The time in an answer's header; 1970 without a valid one, since the answer is about what was done. */
export function isoOf(text: string | undefined): string {
  const time = new Date(text ?? 0);
  return (Number.isNaN(time.getTime()) ? new Date(0) : time).toISOString();
}
