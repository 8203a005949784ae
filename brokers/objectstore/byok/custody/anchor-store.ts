import { type Logger, ServiceError } from '@space/broker-kit';
import { S3Error } from '../../upstream/errors.ts';
import type { S3Client } from '../../upstream/types.ts';
import { type Anchor, anchorKey, readAnchor, writeAnchor } from './anchor.ts';

/** An anchor as the bucket has it, with the entity tag that a write over it names. */
export interface AnchorVersion {
  readonly anchor: Anchor | 'unreadable';
  readonly etag: string;
}

/** Where anchors are kept. Both throw `custody_unavailable` when it cannot be asked. */
export interface Anchors {
  read(capsule: string): Promise<AnchorVersion | undefined>;
  /** Writes over exactly this version, or where there is none; undefined when something else is there. */
  write(capsule: string, anchor: Anchor, over: string | undefined): Promise<AnchorVersion | undefined>;
}

const TIMEOUT_MS = 5_000;
const LIMIT = 4 * 1024;

/** Anchors as small objects of the Space's bucket, each write with a precondition. */
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
 * Does the bucket honour preconditions? One of somebody else's making is refused before the broker listens where it does
 * not (`requireFit`); one that the broker made is asked here alone. Where it does not, changes are still serialised by the
 * registry, but a write that was under way when its replica died may land late.
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
  log.warn(
    { bucket_honours_preconditions: false },
    'anchors of the custody are guarded by the registry alone',
  );
}

function condition(over: string | undefined): Record<string, string> {
  return over === undefined ? { 'if-none-match': '*' } : { 'if-match': over };
}

function isPrecondition(error: unknown): boolean {
  if (!(error instanceof S3Error)) return false;
  // A condition on what is gone: some servers answer 404.
  return error.status === 412 || error.code === 'ConditionalRequestConflict' || error.code === 'NoSuchKey';
}

function deadline(): AbortSignal {
  return AbortSignal.timeout(TIMEOUT_MS);
}

function unavailable(cause: unknown): ServiceError {
  return new ServiceError('custody_unavailable', 'the anchor cannot be asked', { cause, retryAfter: 2 });
}
