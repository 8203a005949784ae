import { type Logger, ServiceError } from '@space/broker-kit';
import { S3Error } from '../../upstream/errors.ts';
import type { S3Client } from '../../upstream/types.ts';
import { type Anchor, anchorKey, readAnchor, writeAnchor } from './anchor.ts';

/** An anchor in the bucket, with the entity tag that a conditional write needs. */
export interface AnchorVersion {
  readonly anchor: Anchor | 'unreadable';
  readonly etag: string;
}

/** The store of anchors. Both methods throw `custody_unavailable` if the bucket does not answer. */
export interface Anchors {
  read(capsule: string): Promise<AnchorVersion | undefined>;
  /** Overwrites exactly this version, or creates the anchor; undefined if another version is there. */
  write(capsule: string, anchor: Anchor, over: string | undefined): Promise<AnchorVersion | undefined>;
}

const TIMEOUT_MS = 5_000;
const LIMIT = 4 * 1024;

/** Anchors as small objects of the Space's bucket, written with preconditions only. */
export function bucketAnchors(s3: Pick<S3Client, 'read' | 'put'>, space: string): Anchors {
  return {
    read: async (capsule) => {
      try {
        const { headers, body } = await s3.read(anchorKey(space, capsule), LIMIT, { signal: deadline() });
        return { anchor: readAnchor(body) ?? 'unreadable', etag: headers['etag'] ?? '' };
      } catch (error) {
        if (error instanceof S3Error && (error.code === 'NoSuchKey' || error.status === 404))
          return undefined;
        throw unavailable(error);
      }
    },
    write: async (capsule, anchor, over) => {
      try {
        const { etag } = await s3.put(anchorKey(space, capsule), writeAnchor(anchor), {
          headers: { 'content-type': 'application/json', ...condition(over) },
          signal: deadline(),
        });
        return { anchor, etag };
      } catch (error) {
        if (isPrecondition(error)) return undefined;
        throw unavailable(error);
      }
    },
  };
}

/**
 * Warns if the bucket ignores preconditions. An external bucket without them is refused before the broker listens
 * (`requireFit`), so this matters for a bucket that the broker created. Without preconditions the registry still
 * serialises changes, but a write of a replica that died may arrive late.
 */
export async function warnWithoutPreconditions(s3: Pick<S3Client, 'put'>, log: Logger): Promise<void> {
  const key = 'custody/v1/precondition';
  const put = (over: string | undefined) =>
    s3.put(key, Buffer.from('{}'), { headers: condition(over), signal: deadline() }).then(
      () => 'written',
      (error: unknown) => (isPrecondition(error) ? 'refused' : Promise.reject(unavailable(error))),
    );
  await put(undefined);
  const again = await put(undefined);
  const other = await put('"00000000000000000000000000000000"');
  if (again === 'refused' && other === 'refused') return;
  log.warn({ bucket_honours_preconditions: false }, 'only the registry protects the anchors of the custody');
}

function condition(over: string | undefined): Record<string, string> {
  return over === undefined ? { 'if-none-match': '*' } : { 'if-match': over };
}

function isPrecondition(error: unknown): boolean {
  if (!(error instanceof S3Error)) return false;
  // The condition named an object that is gone, to which some servers answer 404.
  return error.status === 412 || error.code === 'ConditionalRequestConflict' || error.code === 'NoSuchKey';
}

function deadline(): AbortSignal {
  return AbortSignal.timeout(TIMEOUT_MS);
}

function unavailable(cause: unknown): ServiceError {
  return new ServiceError('custody_unavailable', 'the anchor cannot be read', { cause, retryAfter: 2 });
}
