/**
 * Keys of objects, as a caller spells them and as they lie in the Space's bucket. A key that another reader of the same
 * bytes could take for another key is no key: what is refused here never reaches an upstream.
 */

/** Bytes of UTF-8; what remains of S3's 1,024 is for the tenant's prefix. */
export const MAX_KEY_BYTES = 900;

/** A key that was checked, as text. */
export type ObjectKey = string & { readonly __brand: 'ObjectKey' };

/** The beginning of keys: may be empty, and may end within or after a segment. */
export type KeyPrefix = string & { readonly __brand: 'KeyPrefix' };

/** C0, DEL, C1, the backslash, which some readers take for a separator, and what the XML of a list cannot say. */
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\\\ufffe\uffff]/;
/** Text that becomes a separator, a dot, a backslash or NUL for whoever decodes once too often. */
const DECODES_AGAIN = /%(?:2f|2e|5c|00|25)/i;
/** Characters that RFC 3986 allows in a path; all else is an error, not something to guess about. */
const RAW_PATH = /^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$/;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A key may end in one slash: it names a directory, which clients mark with an empty object. */
export function parseKey(text: string): ObjectKey | undefined {
  if (text === '' || !isCleanText(text)) return undefined;
  const segments = text.split('/');
  if (segments.length > 1 && segments.at(-1) === '') segments.pop();
  return segments.every(isSegment) ? (text as ObjectKey) : undefined;
}

/** Whether the key is of a directory marker: an object without content, whatever lies below its name. */
export function isMarker(key: ObjectKey): boolean {
  return key.endsWith('/');
}

/** A prefix has the rules of a key, but its last segment may be unfinished or absent. */
export function parsePrefix(text: string): KeyPrefix | undefined {
  if (!isCleanText(text)) return undefined;
  const segments = text.split('/');
  segments.pop();
  return segments.every(isSegment) ? (text as KeyPrefix) : undefined;
}

/** The key in the raw path of a request: percent-decoded once, as UTF-8. An escaped slash is no separator. */
export function decodePath(raw: string): string | undefined {
  if (!RAW_PATH.test(raw) || /%2f/i.test(raw)) return undefined;
  return raw.includes('%') ? decodeBytes(raw) : raw;
}

/** A value of a query, percent-decoded once. A bare `+`, which is a space for some and a plus for others, is refused. */
export function decodeQueryValue(raw: string): string | undefined {
  if (!/^(?:[A-Za-z0-9\-._~!$'()*,;:@/?=]|%[0-9A-Fa-f]{2})*$/.test(raw)) return undefined;
  return raw.includes('%') ? decodeBytes(raw) : raw;
}

function isCleanText(text: string): boolean {
  return (
    text.isWellFormed() &&
    Buffer.byteLength(text) <= MAX_KEY_BYTES &&
    !FORBIDDEN.test(text) &&
    !DECODES_AGAIN.test(text)
  );
}

function isSegment(segment: string): boolean {
  return segment !== '' && segment !== '.' && segment !== '..';
}

function decodeBytes(raw: string): string | undefined {
  const bytes = Buffer.alloc(raw.length);
  let length = 0;
  for (let i = 0; i < raw.length; i += 1) {
    if (raw[i] === '%') {
      bytes[length] = Number.parseInt(raw.slice(i + 1, i + 3), 16);
      i += 2;
    } else {
      bytes[length] = raw.charCodeAt(i);
    }
    length += 1;
  }
  try {
    return utf8.decode(bytes.subarray(0, length));
  } catch {
    return undefined; // overlong forms, surrogates, cut sequences
  }
}

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

/** The innermost folder of a tenant's own that a physical key is in; undefined where it is in none. */
export function folderOf(key: string): string | undefined {
  return IN_FOLDER.exec(key)?.[0];
}
const IN_FOLDER = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/.+\/(?=.)/s;

/** The key as the upstream knows it; made by `physicalKey` alone. */
export type PhysicalKey = string & { readonly __brand: 'PhysicalKey' };

const PREFIX = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/$/;

/** Throws unless both are prefixes that we made: the registry may be damaged, a tenant's wall may not. */
export function prefixesOf(data: string, shared: string): BucketPrefixes {
  if (!PREFIX.test(data) || !PREFIX.test(shared)) throw new Error('not a prefix of ours');
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
