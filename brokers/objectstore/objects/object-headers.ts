import { ServiceError } from '@space/broker-kit';
import { S3Error, toServiceError } from '../upstream/errors.ts';
import type { Headers } from '../upstream/types.ts';

/**
 * The headers that pass between callers and an upstream, in both directions. All others are dropped, since an unknown
 * header may ask an upstream for something that is not permitted.
 */

/** Headers that are stored with an object, in addition to callers' own metadata. */
const ABOUT_OBJECT = [
  'content-type',
  'content-disposition',
  'content-encoding',
  'content-language',
  'cache-control',
  'expires',
] as const;
const CONDITIONS = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'] as const;
/** Headers of an answer about an object. */
const ANSWERED = [
  ...ABOUT_OBJECT,
  'content-length',
  'content-range',
  'accept-ranges',
  'etag',
  'last-modified',
];

const VALUE = /^[\x20-\x7e]{0,1024}$/;
const RANGE = /^bytes=(?:\d{1,18}-\d{0,18}|-\d{1,18})$/;
const STRONG_TAG = /^"[\x21\x23-\x7e]{1,128}"$/;
const METADATA_NAME = /^[a-z0-9_](?:[a-z0-9._-]{0,62}[a-z0-9_])?$/;
/** S3's limit for names and values, without the prefix. */
const METADATA_BYTES = 2_048;
/**
 * The room for all headers that are stored with an object. versitygw stores them as attributes of a file, for which ext4 has
 * one block of 4 KiB, and metadata as JSON.
 */
const STORED_BYTES = 3_400;
const ESCAPED = /[<>&"\\]/g;
/** The most bytes that a header takes there: its name, its value with six bytes for what JSON escapes, and what separates them. */
const storedBytes = ([name, value]: readonly [string, string]) =>
  name.length + value.length + 8 + 5 * (value.match(ESCAPED)?.length ?? 0);

/** The prefix of callers' own metadata headers in the bucket. */
export const UPSTREAM_METADATA = 'x-amz-meta-';

/** Whether a header of an answer about an object was stored with it. */
export const isStoredWith = (name: string): boolean =>
  name.startsWith(UPSTREAM_METADATA) || (ABOUT_OBJECT as readonly string[]).includes(name);

/** The headers to store with a new object; `metadata` is the prefix of the caller's own ones. */
export function objectHeaders(headers: ReadonlyMap<string, string>, metadata: string): Headers {
  const result = pickHeaders(headers, ABOUT_OBJECT);
  let bytes = 0;
  for (const [name, value] of headers) {
    if (!name.startsWith(metadata)) continue;
    const own = name.slice(metadata.length);
    bytes += own.length + value.length;
    if (bytes > METADATA_BYTES) throw metadataTooLarge();
    if (!METADATA_NAME.test(own) || !VALUE.test(value)) throw new ServiceError('invalid_request', 'metadata');
    result[`${UPSTREAM_METADATA}${own}`] = value;
  }
  if (result['content-encoding']?.toLowerCase().includes('aws-chunked'))
    throw new ServiceError('invalid_request', 'content encoding of another protocol');
  const all = Object.entries(result).map(
    ([name, value]) =>
      [name.startsWith(UPSTREAM_METADATA) ? name.slice(UPSTREAM_METADATA.length) : name, value] as const,
  );
  if (all.reduce((sum, one) => sum + storedBytes(one), 0) > STORED_BYTES) throw metadataTooLarge();
  return result;
}

const metadataTooLarge = () => toServiceError(new S3Error('answered', 400, 'MetadataTooLarge'));

/** Conditions and checksum of a write; `If-None-Match` may only be `*`. */
export function writeConditions(headers: ReadonlyMap<string, string>): Headers {
  const result = pickHeaders(headers, ['if-match', 'if-none-match', 'content-md5']);
  if (result['if-none-match'] !== undefined && result['if-none-match'] !== '*')
    throw new ServiceError('invalid_request', 'if-none-match of a write');
  return result;
}

/** The entity tag that a delete requires, if any. */
export function deleteCondition(headers: ReadonlyMap<string, string>): string | undefined {
  return pickHeaders(headers, ['if-match'])['if-match'];
}

/** Conditions and range of a read, with one range at most. */
export function readConditions(headers: ReadonlyMap<string, string>): Headers {
  const { 'if-range': of, ...result } = pickHeaders(headers, [...CONDITIONS, 'range', 'if-range']);
  if (result['range'] !== undefined && !RANGE.test(result['range']))
    throw new ServiceError('invalid_request', 'not one range of bytes');
  if (of === undefined || result['range'] === undefined) return result;
  if (STRONG_TAG.test(of)) return { ...result, 'if-range': of };
  // A tag that is not strong may belong to two objects; then the whole object is sent, which is always correct.
  const { range: _, ...whole } = result;
  return whole;
}

/** The headers of an answer about an object, with metadata under the caller's prefix. */
export function answerHeaders(upstream: Headers, metadata: string): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of ANSWERED) {
    const value = upstream[name];
    if (value !== undefined) result[name] = value;
  }
  for (const name of Object.keys(upstream)) {
    if (!name.startsWith(UPSTREAM_METADATA)) continue;
    result[`${metadata}${name.slice(UPSTREAM_METADATA.length)}`] = upstream[name] ?? '';
  }
  return result;
}

/** The headers that are stored with an object, from an answer about it. */
export function storedHeaders(upstream: Headers): Record<string, string> {
  const isKept = (name: string) =>
    ABOUT_OBJECT.some((about) => about === name) || name.startsWith(UPSTREAM_METADATA);
  return Object.fromEntries(Object.entries(upstream).filter(([name]) => isKept(name)));
}

export function isHeaderValue(text: string): boolean {
  return VALUE.test(text);
}

/** The headers with these names. @throws ServiceError `invalid_request` for a value that is not permitted */
function pickHeaders(headers: ReadonlyMap<string, string>, names: readonly string[]): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of names) {
    const value = headers.get(name);
    if (value === undefined) continue;
    if (!isHeaderValue(value)) throw new ServiceError('invalid_request', `header ${name}`);
    result[name] = value;
  }
  return result;
}
