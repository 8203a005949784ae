import { ServiceError } from '@space/broker-kit';
import type { Headers } from '../upstream/types.ts';

/** The headers that are kept with an object, and those that callers name themselves. */

export const ABOUT_OBJECT = [
  'content-type',
  'content-disposition',
  'content-encoding',
  'content-language',
  'cache-control',
  'expires',
] as const;
const VALUE = /^[\x20-\x7e]{0,1024}$/;
const METADATA_NAME = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/;
const METADATA_BYTES = 2_048;
/** What names of a caller's own headers begin with in the bucket. */
export const UPSTREAM_METADATA = 'x-amz-meta-';

/** What a new object is stored with: `metadata` is the prefix under which the caller names its own. */
export function objectHeaders(headers: ReadonlyMap<string, string>, metadata: string): Headers {
  const result = pickHeaders(headers, ABOUT_OBJECT);
  let bytes = 0;
  for (const [name, value] of headers) {
    if (!name.startsWith(metadata)) continue;
    const own = name.slice(metadata.length);
    bytes += own.length + value.length;
    if (!METADATA_NAME.test(own) || !VALUE.test(value) || bytes > METADATA_BYTES)
      throw new ServiceError('invalid_request', 'metadata');
    result[`${UPSTREAM_METADATA}${own}`] = value;
  }
  if (result['content-encoding']?.toLowerCase().includes('aws-chunked'))
    throw new ServiceError('invalid_request', 'content encoding of another protocol');
  return result;
}

export function isHeaderValue(text: string): boolean {
  return VALUE.test(text);
}

/** The headers of these names; throws `invalid_request` for a value that no header may have. */
export function pickHeaders(
  headers: ReadonlyMap<string, string>,
  names: readonly string[],
): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of names) {
    const value = headers.get(name);
    if (value === undefined) continue;
    if (!isHeaderValue(value)) throw new ServiceError('invalid_request', `header ${name}`);
    result[name] = value;
  }
  return result;
}
