import { ServiceError } from '@space/broker-kit';
import { isGrantShaped } from '../../byok/grants/verify.ts';
import { readConditions } from '../../objects/object-headers.ts';
import { decodeText, isBucket, parseKey } from '../../objects/object-key.ts';
import type { CopySource } from '../../objects/types.ts';
import type { Headers } from '../../upstream/types.ts';
import type { Received } from '../exchange.ts';
import { noSuchBucket, notImplemented } from './errors.ts';
import { nameOfHeader } from './known-names.ts';

/** S3 headers that are used here, or that have no effect whatever their value. */
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
  'x-amz-object-attributes',
  'x-amz-max-parts',
  'x-amz-part-number-marker',
]);
/**
 * Headers that clients send unasked, with the values that ask for what happens in any case or for something optional.
 * Other values would change what is stored or who may read it.
 */
const HARMLESS: Readonly<Record<string, RegExp>> = {
  'x-amz-acl': /^(?:private|bucket-owner-full-control)$/,
  // Sent by the AWS SDK for C++, which pyarrow uses.
  'x-amz-api-version': /^2006-03-01$/,
  // Objects are never locked here.
  'x-amz-bypass-governance-retention': /^(?:true|false)$/i,
  'x-amz-object-lock-legal-hold': /^OFF$/,
  // There are no AWS accounts here, and the owner of a bucket is always the caller.
  'x-amz-expected-bucket-owner': /^\d{12}$/,
  'x-amz-source-expected-bucket-owner': /^\d{12}$/,
  'x-amz-request-payer': /^requester$/,
  'x-amz-server-side-encryption': /^AES256$/,
  'x-amz-server-side-encryption-bucket-key-enabled': /^false$/i,
  'x-amz-storage-class': /^STANDARD$/,
  // There are no tags to copy.
  'x-amz-tagging-directive': /^COPY$/,
  // Sent by the AWS SDK for Java: the server may append an MD5 to the body, and would announce that.
  'x-amz-te': /^append-md5$/,
};

const SOURCE = 'x-amz-copy-source-';
/** Container credential providers require a session token; this constant has no meaning. */
export const SESSION_TOKEN = 'space';
/** The session token's header contains our constant or a grant, which is verified where it is used. */
const TOKEN = 'x-amz-security-token';

export function grantOf(headers: Received): string | undefined {
  const token = headers.get(TOKEN);
  return token === SESSION_TOKEN ? undefined : token;
}

/** @throws S3Refusal `NotImplemented` for a header whose effect is not supported */
export function checkS3Headers(headers: Received): void {
  for (const [name, value] of headers) {
    if (!name.startsWith('x-amz-') || KNOWN.has(name)) continue;
    if (name.startsWith('x-amz-meta-') || name.startsWith('x-amz-checksum-')) continue;
    if (name === TOKEN && (value === SESSION_TOKEN || isGrantShaped(value))) continue;
    if (!HARMLESS[name]?.test(value)) throw notImplemented(nameOfHeader(name));
  }
}

/** The source of a copy, by its headers. Clients escape its separators, too: those of the key, or all. */
export function sourceOf(headers: Received): CopySource {
  const source = headers.get('x-amz-copy-source') ?? '';
  // A version is none of a bucket's here.
  const text = source.includes('?') ? '' : decodeText(source);
  if (text === undefined) throw new ServiceError('invalid_request', 'copy source');
  const [, bucket = '', name = ''] = /^\/?([^/]+)\/(.+)$/s.exec(text) ?? [];
  const key = parseKey(name);
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
