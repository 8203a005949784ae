import { brokenCondition } from './conditional-writes.ts';
import { S3Error } from './errors.ts';
import type { S3Client } from './types.ts';

/** A bucket that the Space cannot use; the message contains the reason and the remedy, and nothing of the keys. */
export class UnfitBucketError extends Error {
  constructor(bucket: string, why: string, options?: { cause?: unknown }) {
    super(`the bucket "${bucket}" cannot be the Space's: ${why}`, options);
    this.name = 'UnfitBucketError';
  }
}

const WHY: Readonly<Record<string, string>> = {
  NoSuchBucket: 'it does not exist; the owner of the server has to create it',
  AccessDenied: 'the key may not list, read, write and delete all of it, or not read whether it is versioned',
  InvalidAccessKeyId: 'the server does not know the access key',
  SignatureDoesNotMatch: 'the secret key does not belong to the access key, or the region is wrong',
  AuthorizationHeaderMalformed: 'it is in another region',
  RequestTimeTooSkewed: "its server's clock and this pod's are more than 15 minutes apart",
  PermanentRedirect: 'it is in another region, or its server requires the other addressing',
};

/**
 * Tests at start, with a temporary object, whether an external bucket has the required properties: conditional writes,
 * also concurrent ones (the records of custody and principals, and the bucket's owner, depend on them), and deletion
 * without versions. Rejects with UnfitBucketError if it has not, with S3Error if it does not answer.
 */
export async function requireFit(
  s3: S3Client,
  { bucket, key }: { readonly bucket: string; readonly key: string },
  signal: AbortSignal,
): Promise<void> {
  const unfit = (why: string) => new UnfitBucketError(bucket, why);
  try {
    await s3.list({ prefix: key, limit: 1 }, { signal });
    if (await s3.isVersioned({ signal }))
      throw unfit(
        'it is versioned, so what a Capsule deletes would remain; suspend versioning, or use another bucket',
      );
    const broken = await brokenCondition(s3, key, signal);
    await s3.delete(key, { signal });
    if (broken !== undefined) throw unfit(`its server ${broken}; use one with conditional writes`);
  } catch (error) {
    throw refusedBy(error, bucket);
  }
}

/** A sentence for an error of the bucket's server that is permanent; any other error unchanged. */
export function refusedBy(error: unknown, bucket: string): unknown {
  if (!(error instanceof S3Error)) return error;
  const unfit = (why: string) => new UnfitBucketError(bucket, why, { cause: error });
  if (error.kind === 'tls')
    return unfit('its certificate is not from an authority that S3_CA_FILE, or the system, has');
  // A temporary failure, such as the loss of one of several servers.
  if (error.kind !== 'answered' || error.isPassing) return error;
  return unfit(WHY[error.code] ?? `its server answers ${error.status} ${error.code}`);
}
