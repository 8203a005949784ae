import type { KeyPrefix, ObjectKey } from './object-key.ts';

/** The buckets that exist for an Assistant: its own, and the one of its whole Capsule. */
export const BUCKETS = ['data', 'shared'] as const;
export type Bucket = (typeof BUCKETS)[number];

/** An object by the names that its Assistant knows. */
export interface ObjectRef {
  readonly bucket: Bucket;
  readonly key: ObjectKey;
}

/** What an Assistant's buckets are in the Space's bucket: prefixes that the registry keeps. */
export type BucketPrefixes = Readonly<Record<Bucket, string>>;

/** Whether a key of the Space's bucket lies under a prefix of ours. */
export const isUnderPrefix = (key: string): boolean => UNDER_PREFIX.test(key);
const UNDER_PREFIX = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/./;

/** The key as the upstream knows it; made by `physicalKey` alone. */
export type PhysicalKey = string & { readonly __brand: 'PhysicalKey' };

const PREFIX = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/$/;

/** Throws unless both are prefixes that we made: the registry may be damaged, a tenant's wall may not. */
export function prefixesOf(data: string, shared: string): BucketPrefixes {
  if (!PREFIX.test(data) || !PREFIX.test(shared)) throw new Error('not a place of ours');
  return { data, shared };
}

/** A checked key lies under its prefix by construction: nothing in it can climb, and the prefix ends with a slash. */
export function physicalKey(prefixes: BucketPrefixes, bucket: Bucket, key: ObjectKey): PhysicalKey {
  return `${prefixes[bucket]}${key}` as PhysicalKey;
}

export function physicalPrefix(prefixes: BucketPrefixes, bucket: Bucket, prefix: KeyPrefix): string {
  return `${prefixes[bucket]}${prefix}`;
}

/** The caller's name of a physical key; undefined for one that is not under the bucket's prefix, which is never shown. */
export function logicalKey(prefixes: BucketPrefixes, bucket: Bucket, key: string): string | undefined {
  const prefix = prefixes[bucket];
  return key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
}

export function isBucket(name: string): name is Bucket {
  return BUCKETS.some((bucket) => bucket === name);
}

/** Where an object that a request names lies in the Space's bucket. */
export function physicalOf(
  { tenant }: { readonly tenant: { readonly prefixes: BucketPrefixes } },
  { bucket, key }: ObjectRef,
): PhysicalKey {
  return physicalKey(tenant.prefixes, bucket, key);
}
