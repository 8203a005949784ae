/**
 * Keys of objects, as callers write them and as they are in the Space's bucket. A key that another reader could take
 * for a different one is refused, and never reaches an upstream.
 */

/** Bytes of UTF-8; the rest of S3's 1,024 is for the tenant's prefix. */
export const MAX_KEY_BYTES = 900;

/** A checked key. */
export type ObjectKey = string & { readonly __brand: 'ObjectKey' };

/** A checked beginning of keys: it may be empty, and may end in or after a segment. */
export type KeyPrefix = string & { readonly __brand: 'KeyPrefix' };

/** C0, DEL, C1, the backslash, which some readers take for a separator, and characters that XML cannot express. */
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\\\ufffe\uffff]/;
/** Escapes that become a separator, a dot, a backslash or NUL when they are decoded twice. */
const DECODES_AGAIN = /%(?:2f|2e|5c|00|25)/i;
/** The characters that RFC 3986 permits in a path; others are an error. */
const RAW_PATH = /^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$/;

/** A key may end in one slash: it names a directory, which clients mark with an empty object. */
export function parseKey(text: string): ObjectKey | undefined {
  if (text === '' || !isCleanText(text)) return undefined;
  const segments = text.split('/');
  if (segments.at(-1) === '') segments.pop();
  return segments.every(isSegment) ? (text as ObjectKey) : undefined;
}

/** Whether the key is that of a directory marker: an object without content, whatever is below it. */
export function isMarker(key: ObjectKey): boolean {
  return key.endsWith('/');
}

/** A prefix follows the rules of a key, but its last segment may be incomplete or absent. */
export function parsePrefix(text: string): KeyPrefix | undefined {
  if (!isCleanText(text)) return undefined;
  const segments = text.split('/');
  segments.pop();
  return segments.every(isSegment) ? (text as KeyPrefix) : undefined;
}

/** The key in the raw path of a request, percent-decoded once, as UTF-8. An escaped slash is not a separator. */
export function decodePath(raw: string): string | undefined {
  return /%2f/i.test(raw) ? undefined : decodeText(raw);
}

/** A text that is escaped like a path, percent-decoded once, with its slashes. */
export function decodeText(raw: string): string | undefined {
  return RAW_PATH.test(raw) ? percentDecoded(raw) : undefined;
}

/**
 * A value of a query, percent-decoded once. A bare `+`, which means a space or a plus depending on the reader, is
 * refused.
 */
export function decodeQueryValue(raw: string): string | undefined {
  if (!/^(?:[A-Za-z0-9\-._~!$'()*,;:@/?=]|%[0-9A-Fa-f]{2})*$/.test(raw)) return undefined;
  return percentDecoded(raw);
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

/** Undefined for overlong forms, surrogates, and cut sequences. */
function percentDecoded(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw);
  } catch {
    return undefined;
  }
}

/** The buckets that an Assistant sees: its own, and that of its whole Capsule. */
export const BUCKETS = ['data', 'shared'] as const;
export type Bucket = (typeof BUCKETS)[number];

/** An object by the names that its Assistant uses. */
export interface ObjectRef {
  readonly bucket: Bucket;
  readonly key: ObjectKey;
}

/** The prefixes of an Assistant's buckets in the Space's bucket, from the registry. */
export type BucketPrefixes = Readonly<Record<Bucket, string>>;

/** Whether a key of the Space's bucket is under a prefix of this form. */
export const isUnderPrefix = (key: string): boolean => UNDER_PREFIX.test(key);
const UNDER_PREFIX = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/./;

/** The innermost folder of a tenant in a physical key; undefined if it has none. */
export function folderOf(key: string): string | undefined {
  return IN_FOLDER.exec(key)?.[0];
}
const IN_FOLDER = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/.+\/(?=.)/s;

/** The key in the Space's bucket; only `physicalKey` creates it. */
export type PhysicalKey = string & { readonly __brand: 'PhysicalKey' };

const PREFIX = /^c\/[0-9a-f]{40}\/(?:a\/[0-9a-f]{40}|s)\/$/;

/**
 * Throws unless this broker can have created both prefixes, so that a damaged registry does not break the isolation of
 * tenants.
 */
export function prefixesOf(data: string, shared: string): BucketPrefixes {
  if (!PREFIX.test(data) || !PREFIX.test(shared)) throw new Error('not a prefix of ours');
  return { data, shared };
}

/** The result is always under the prefix: a checked key cannot leave it, and the prefix ends with a slash. */
export function physicalKey(prefixes: BucketPrefixes, bucket: Bucket, key: ObjectKey): PhysicalKey {
  return `${prefixes[bucket]}${key}` as PhysicalKey;
}

export function physicalPrefix(prefixes: BucketPrefixes, bucket: Bucket, prefix: KeyPrefix): string {
  return `${prefixes[bucket]}${prefix}`;
}

/**
 * The caller's name of a physical key; undefined for a key that is not under the bucket's prefix, which is never shown.
 */
export function logicalKey(prefixes: BucketPrefixes, bucket: Bucket, key: string): string | undefined {
  const prefix = prefixes[bucket];
  return key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
}

export function isBucket(name: string): name is Bucket {
  return BUCKETS.some((bucket) => bucket === name);
}

/** The key in the Space's bucket of an object that a request names. */
export function physicalOf(
  { tenant }: { readonly tenant: { readonly prefixes: BucketPrefixes } },
  { bucket, key }: ObjectRef,
): PhysicalKey {
  return physicalKey(tenant.prefixes, bucket, key);
}
