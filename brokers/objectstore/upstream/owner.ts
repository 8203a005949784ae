import { hkdfSync } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';
import { z } from 'zod';
import { S3Error } from './errors.ts';
import { refusedBy, UnfitBucketError } from './fit.ts';
import type { S3Client } from './types.ts';

/** The key of the object that names the bucket's owner; no Capsule's object has such a key. */
export const OWNER_KEY = 'space-owner';
/** The prefix of an object that brokers of older versions store, followed by the name of the Space. */
const EPOCHS = 'custody/v1/epoch-';
const LIMIT = 4 * 1024;
const ATTEMPTS = 3;

/** A Space as the owner of a bucket. */
export interface Owner {
  readonly space: string;
  /** 64 hex digits, which distinguish two Spaces of the same name. */
  readonly id: string;
}

/** The log repeats a name from the bucket only if it has this form. */
const SPACE = /^[a-z][a-z0-9-]{0,39}$/;
const schema = z.strictObject({
  v: z.literal(1),
  space: z.string().regex(SPACE),
  id: z.string().regex(/^[0-9a-f]{64}$/),
});

/**
 * The identity of a Space is the key that objects' prefixes are derived from: a restore restores it, a Space that is
 * installed again with kept namespaces finds it there, it is never exchanged, and without it nothing in the bucket can
 * be found.
 */
export function ownerOf(nameKey: Secret<Buffer>, space: string): Owner {
  const info = lengthPrefixed(['space-bucket-owner/v1', space]);
  return { space, id: Buffer.from(hkdfSync('sha256', nameKey.reveal(), '', info, 32)).toString('hex') };
}

/**
 * Claims the bucket for this Space if it has no owner. If several Spaces try at the same time, the server accepts one
 * of their conditional writes. Rejects with UnfitBucketError if the bucket is another Space's, with S3Error if its
 * server does not answer.
 */
export async function claimBucket(
  s3: Pick<S3Client, 'read' | 'put' | 'list'>,
  { bucket, owner }: { readonly bucket: string; readonly owner: Owner },
  signal: AbortSignal,
): Promise<void> {
  try {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const found = await readOwner(s3, signal);
      if (found !== undefined) return requireSame(found, bucket, owner);
      await requireUnused(s3, bucket, owner, signal);
      if (await writeOwner(s3, owner, signal)) return;
    }
  } catch (error) {
    throw refusedBy(error, bucket);
  }
  throw new UnfitBucketError(
    bucket,
    `its object ${OWNER_KEY} is being changed at this moment; restart the broker`,
  );
}

async function readOwner(
  s3: Pick<S3Client, 'read'>,
  signal: AbortSignal,
): Promise<Owner | 'unreadable' | undefined> {
  try {
    const { body } = await s3.read(OWNER_KEY, LIMIT, { signal });
    return parse(body.toString('utf8'));
  } catch (error) {
    if (error instanceof S3Error && (error.code === 'NoSuchKey' || error.status === 404)) return undefined;
    throw error;
  }
}

function parse(text: string): Owner | 'unreadable' {
  try {
    const read = schema.safeParse(JSON.parse(text));
    return read.success ? read.data : 'unreadable';
  } catch {
    return 'unreadable';
  }
}

function requireSame(found: Owner | 'unreadable', bucket: string, owner: Owner): void {
  if (found === 'unreadable')
    throw new UnfitBucketError(
      bucket,
      `its object ${OWNER_KEY}, which names its owner, cannot be read; if the bucket belongs to this Space, delete that object and restart the broker`,
    );
  if (found.space !== owner.space) throw ofAnother(bucket, found.space);
  if (found.id !== owner.id)
    throw new UnfitBucketError(
      bucket,
      `it belongs to another Space of the name "${found.space}", with other keys; name a bucket of this Space's own, or restore the Secret objectstore-keys that it was filled with. If the other Space no longer exists, empty the bucket`,
    );
}

/** Buckets of older versions have no owner, but an object with the Space's name. */
async function requireUnused(
  s3: Pick<S3Client, 'list'>,
  bucket: string,
  { space }: Owner,
  signal: AbortSignal,
): Promise<void> {
  const { objects } = await s3.list({ prefix: EPOCHS, limit: 1_000 }, { signal });
  const spaces = objects.map(({ key }) => key.slice(EPOCHS.length)).filter((name) => SPACE.test(name));
  const [other] = spaces;
  if (other !== undefined && !spaces.includes(space)) throw ofAnother(bucket, other);
}

function ofAnother(bucket: string, space: string): UnfitBucketError {
  return new UnfitBucketError(
    bucket,
    `it belongs to the Space "${space}"; name a bucket of this Space's own. If "${space}" no longer exists, empty the bucket`,
  );
}

/** False if another writer was faster. */
async function writeOwner(s3: Pick<S3Client, 'put'>, owner: Owner, signal: AbortSignal): Promise<boolean> {
  const headers = { 'content-type': 'application/json', 'if-none-match': '*' };
  try {
    await s3.put(OWNER_KEY, Buffer.from(`${JSON.stringify({ v: 1, ...owner })}\n`), { headers, signal });
    return true;
  } catch (error) {
    if (error instanceof S3Error && (error.status === 412 || error.status === 409)) return false;
    throw error;
  }
}
