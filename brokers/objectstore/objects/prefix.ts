import type { KeyPrefix, ObjectKey } from './object-key.ts';

/** The buckets that exist for an Assistant: its own, and the one of its whole Capsule. */
export const BUCKETS = ['data', 'shared'] as const;
export type Bucket = (typeof BUCKETS)[number];

/** An object by the names that its Assistant knows. */
export interface Place {
  readonly bucket: Bucket;
  readonly key: ObjectKey;
}

/** What an Assistant's buckets are in the Space's bucket: prefixes that the registry keeps. */
export type Room = Readonly<Record<Bucket, string>>;

/** Whether a key of the Space's bucket lies in a place of ours. */
export const isPlaced = (key: string): boolean => PLACED.test(key);
const PLACED = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/./;

/** The key as the upstream knows it; made by `physicalKey` alone. */
export type PhysicalKey = string & { readonly __brand: 'PhysicalKey' };

const PLACE = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/$/;

/** Throws unless both are places that we made: the registry may be damaged, a tenant's wall may not. */
export function roomOf(data: string, shared: string): Room {
  if (!PLACE.test(data) || !PLACE.test(shared)) throw new Error('not a place of ours');
  return { data, shared };
}

/** A checked key lies in its room by construction: nothing in it can climb, and the place ends with a slash. */
export function physicalKey(room: Room, bucket: Bucket, key: ObjectKey): PhysicalKey {
  return `${room[bucket]}${key}` as PhysicalKey;
}

export function physicalPrefix(room: Room, bucket: Bucket, prefix: KeyPrefix): string {
  return `${room[bucket]}${prefix}`;
}

/** The caller's name of a physical key; undefined for one outside the room, which is never shown. */
export function logicalKey(room: Room, bucket: Bucket, key: string): string | undefined {
  const place = room[bucket];
  return key.startsWith(place) ? key.slice(place.length) : undefined;
}

export function isBucket(name: string): name is Bucket {
  return BUCKETS.some((bucket) => bucket === name);
}

/** Where an object that a request names lies in the Space's bucket. */
export function physicalOf(
  { tenant }: { readonly tenant: { readonly room: Room } },
  { bucket, key }: Place,
): PhysicalKey {
  return physicalKey(tenant.room, bucket, key);
}
