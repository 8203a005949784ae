import { createHmac, hash } from 'node:crypto';
import type { Target } from './target.ts';

/**
 * AWS Signature Version 4 for S3, in the one canonical form that both of our sides need: requests that we sign for
 * the upstream, and requests of unmodified S3 clients that we verify. Paths and queries are taken as they go over
 * the wire, never through a URL parser, which would name another resource. Tested against the AWS SDK's signer.
 */

export const ALGORITHM = 'AWS4-HMAC-SHA256';
export const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD';
export const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** What a signature is made over. Header names in lower case; the query's names and values encoded, not sorted. */
export interface Signable {
  readonly method: string;
  /** The path as sent: encoded once, beginning with a slash. */
  readonly path: string;
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Lower-case hex of the body's SHA-256, or one of the fixed words. */
  readonly payload: string;
}

/** Day, region and service that a derived key is good for. */
export interface Scope {
  /** Eight digits. */
  readonly day: string;
  readonly region: string;
}

export function scopeText({ day, region }: Scope): string {
  return `${day}/${region}/s3/aws4_request`;
}

/** The key of a day, from the secret. */
export function signingKey(secret: string, { day, region }: Scope): Buffer {
  const date = hmac(`AWS4${secret}`, day);
  return hmac(hmac(hmac(date, region), 's3'), 'aws4_request');
}

export interface Signature {
  /** Lower-case hex. */
  readonly signature: string;
  /** Names of the headers that it covers, as they are listed in an Authorization header. */
  readonly signedHeaders: string;
}

/** `time` is the ISO 8601 basic form of `x-amz-date`. */
export function signatureOf(request: Signable, key: Buffer, time: string, scope: string): Signature {
  const query = sorted(request.query)
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
  let headers = '';
  let names = '';
  for (const [name, value] of sorted(request.headers)) {
    headers += `${name}:${value.trim().replace(/ {2,}/g, ' ')}\n`;
    names += names === '' ? name : `;${name}`;
  }
  const digest = sha256(
    `${request.method}\n${request.path}\n${query}\n${headers}\n${names}\n${request.payload}`,
  );
  return { signature: hmacHex(key, `${ALGORITHM}\n${time}\n${scope}\n${digest}`), signedHeaders: names };
}

/** `20261121T134501Z` */
export function amzDate(time: Date): string {
  return `${time.toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
}

export function sha256(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex');
}

export function hmac(key: string | Buffer, data: string): Buffer {
  return createHmac('sha256', key).update(data, 'utf8').digest();
}

function hmacHex(key: Buffer, data: string): string {
  return createHmac('sha256', key).update(data, 'utf8').digest('hex');
}

/** Sorts by code unit, as AWS does: names first, then values. */
function sorted(pairs: Signable['query']): Signable['query'] {
  return pairs.length < 2 ? pairs : pairs.toSorted(([a, x], [b, y]) => (a === b ? order(x, y) : order(a, b)));
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The path of a key in a request: RFC 3986, everything escaped that may be, slashes kept. */
export function encodePath(text: string): string {
  return encode(text).replaceAll('%2F', '/');
}

/** A name or value of a query. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, escapeChar);
}

function escapeChar(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
}

type Pairs = Signable['headers'];

/** Adds date, payload word and Authorization to the headers of a request; `host` must be among them. */
export type Sign = (request: Signable, now: Date) => Record<string, string>;

/** Every header is signed, so that nobody between us and the upstream can add to what we ask for. */
export function createSigner(target: Target): Sign {
  let kept: Kept | undefined;
  return (request, now) => {
    // Read each time: the keys of a target may be exchanged under us.
    const { region, accessKeyId, secretAccessKey: of } = target;
    const time = amzDate(now);
    const day = time.slice(0, 8);
    if (kept?.day !== day || kept.of !== of) {
      const scope = { day, region };
      kept = { day, of, key: signingKey(of.reveal(), scope), scope: scopeText(scope) };
    }
    const headers: Pairs = [
      ...request.headers,
      ['x-amz-content-sha256', request.payload],
      ['x-amz-date', time],
    ];
    const { key, scope } = kept;
    const { signature, signedHeaders } = signatureOf({ ...request, headers }, key, time, scope);
    const all: Record<string, string> = {};
    for (const [name, value] of headers) all[name] = value;
    all['authorization'] =
      `${ALGORITHM} Credential=${accessKeyId.reveal()}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
    return all;
  };
}

/** What a day's signatures have in common. */
interface Kept {
  readonly day: string;
  readonly of: Target['secretAccessKey'];
  readonly key: Buffer;
  readonly scope: string;
}
