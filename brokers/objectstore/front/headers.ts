import { ServiceError } from '@space/broker-kit';
import { isBucket } from '../data/address.ts';
import { type Received, readConditions } from '../data/headers.ts';
import { decodePath, parseKey } from '../data/keys.ts';
import type { CopySource } from '../data/store.ts';
import { isGrantShaped } from '../grants/verify.ts';
import type { Headers } from '../upstream/client.ts';
import { FrontError, notImplemented } from './errors.ts';
import { SESSION_TOKEN } from './keys.ts';

/** Headers of S3 that we act on, or that mean nothing here and do no harm. */
const KNOWN = new Set([
  'x-amz-date',
  'x-amz-content-sha256',
  'x-amz-decoded-content-length',
  'x-amz-trailer',
  'x-amz-sdk-checksum-algorithm',
  'x-amz-user-agent',
  'x-amz-metadata-directive',
  'x-amz-copy-source',
  'x-amz-copy-source-range',
  'x-amz-copy-source-if-match',
  'x-amz-copy-source-if-none-match',
  'x-amz-copy-source-if-modified-since',
  'x-amz-copy-source-if-unmodified-since',
  'x-amz-bucket-region',
  'x-amz-optional-object-attributes',
  'x-amz-mp-object-size',
]);
/** Headers that ask for what is so anyway. */
const DEFAULTS: Readonly<Record<string, string>> = {
  'x-amz-acl': 'private',
  'x-amz-storage-class': 'STANDARD',
};

const SOURCE = 'x-amz-copy-source-';
/** In the place of a session token comes ours, or what is shaped as a grant and judged where it is used. */
const TOKEN = 'x-amz-security-token';

export function grantOf(headers: Received): string | undefined {
  const token = headers.get(TOKEN);
  return token === SESSION_TOKEN ? undefined : token;
}

/** Throws `NotImplemented` for a header whose meaning we would have to keep and do not. */
export function checkS3Headers(headers: Received): void {
  for (const [name, value] of headers) {
    if (!name.startsWith('x-amz-') || KNOWN.has(name)) continue;
    if (name.startsWith('x-amz-meta-') || name.startsWith('x-amz-checksum-')) continue;
    if (name === TOKEN && (value === SESSION_TOKEN || isGrantShaped(value))) continue;
    if (DEFAULTS[name] !== value) throw notImplemented(`header ${name.slice(0, 64)}`);
  }
}

/** Of a read, in S3's names. */
export function sourceOf(headers: Received): CopySource {
  const text = headers.get('x-amz-copy-source') ?? '';
  const [, rawBucket = '', rawKey = ''] = /^\/?([^/?]+)\/([^?]+)$/.exec(text) ?? [];
  const bucket = decodePath(rawBucket) ?? '';
  const key = parseKey(decodePath(rawKey) ?? '');
  if (!isBucket(bucket)) throw noSuchBucket();
  if (key === undefined) throw new ServiceError('invalid_request', 'copy source');
  return { bucket, key, conditions: sourceConditions(headers) };
}

function sourceConditions(headers: Received): Headers {
  const named = [...headers].flatMap(([name, value]) =>
    name.startsWith(SOURCE) && name !== `${SOURCE}range` ? [[name.slice(SOURCE.length), value] as const] : [],
  );
  return readConditions(new Map(named));
}

export function noSuchBucket(): FrontError {
  return new FrontError('not_found', { status: 404, code: 'NoSuchBucket' }, 'no such bucket');
}
