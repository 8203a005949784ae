import { createHash } from 'node:crypto';
import type { S3Client } from '../upstream/client.ts';
import { S3Error } from '../upstream/errors.ts';

type Parts = readonly { readonly number: number; readonly etag: string }[];

const MD5 = /^"[0-9a-f]{32}"$/;

/** The entity tag of an object of these parts, as S3 makes it; undefined where theirs are of another kind. */
function etagOfParts(parts: Parts): string | undefined {
  if (parts.length === 0 || !parts.every(({ etag }) => MD5.test(etag))) return undefined;
  const digests = parts.map(({ etag }) => Buffer.from(etag.slice(1, -1), 'hex'));
  return `"${createHash('md5').update(Buffer.concat(digests)).digest('hex')}-${parts.length}"`;
}

/**
 * The entity tag of what is there, where it is just what these parts make: then they were put together before, and
 * whoever asks again did not hear of it.
 */
export async function completedBefore(
  client: Pick<S3Client, 'head'>,
  key: string,
  parts: Parts,
  signal: AbortSignal,
): Promise<string | undefined> {
  const expected = etagOfParts(parts);
  if (expected === undefined) return undefined;
  try {
    const { headers } = await client.head(key, { signal });
    return headers['etag'] === expected ? expected : undefined;
  } catch (error) {
    if (error instanceof S3Error && error.status === 404) return undefined;
    throw error;
  }
}
