import { ServiceError } from '@space/broker-kit';
import { ABOUT_OBJECT, pickHeaders, UPSTREAM_METADATA } from '../objects/object-headers.ts';
import type { Headers } from '../upstream/types.ts';

/**
 * Which headers pass, by name, in both directions. All else stays where it is: a header that we do not know may ask
 * an upstream for something that we did not allow.
 */

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

const RANGE = /^bytes=(?:\d{1,18}-\d{0,18}|-\d{1,18})$/;
/** Headers as they came, each name once, in lower case. */
export type Received = ReadonlyMap<string, string>;

/** Throws `invalid_request` when a header came twice: two readers might believe different ones. */
export function receivedHeaders(rawHeaders: readonly string[]): Received {
  const headers = new Map<string, string>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (headers.has(name)) throw new ServiceError('invalid_request', 'a header twice');
    headers.set(name, rawHeaders[i + 1] ?? '');
  }
  return headers;
}

/** Conditions and checksum of a write. `If-None-Match` knows but one value there. */
export function writeConditions(headers: Received): Headers {
  const result = pickHeaders(headers, ['if-match', 'if-none-match', 'content-md5']);
  if (result['if-none-match'] !== undefined && result['if-none-match'] !== '*')
    throw new ServiceError('invalid_request', 'if-none-match of a write');
  return result;
}

/** The entity tag that a delete is limited to, if it is. */
export function deleteCondition(headers: Received): string | undefined {
  return pickHeaders(headers, ['if-match'])['if-match'];
}

/** Conditions and range of a read: one range or none. */
export function readConditions(headers: Received): Headers {
  const result = pickHeaders(headers, [...CONDITIONS, 'range']);
  if (result['range'] !== undefined && !RANGE.test(result['range']))
    throw new ServiceError('invalid_request', 'not one range of bytes');
  return result;
}

/** What the caller is told of an object, with metadata under its own prefix. */
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
