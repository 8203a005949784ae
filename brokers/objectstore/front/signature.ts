import { timingSafeEqual } from 'node:crypto';
import { decodePath, decodeQueryValue } from '../data/keys.ts';
import { encode, encodePath } from '../upstream/encode.ts';
import {
  ALGORITHM,
  type Scope,
  type Signable,
  scopeText,
  signatureOf,
  signingKey,
} from '../upstream/sigv4.ts';

/** The Authorization header of a signed request. */
export interface Claim {
  readonly accessKeyId: string;
  readonly scope: Scope;
  readonly signedHeaders: readonly string[];
  readonly signature: string;
}

/** A request whose signature was verified, and what its body's chunks are signed with. */
export interface Verified {
  readonly key: Buffer;
  readonly scope: Scope;
  /** `x-amz-date` */
  readonly time: string;
  readonly signature: string;
}

export interface SignedRequest {
  readonly method: string;
  /** As it came. */
  readonly path: string;
  readonly query: string | undefined;
  readonly headers: ReadonlyMap<string, string>;
}

const CLAIM =
  /^AWS4-HMAC-SHA256 +Credential=([A-Za-z0-9]{16,128})\/(\d{8})\/([A-Za-z0-9-]{1,64})\/s3\/aws4_request, *SignedHeaders=([a-z0-9;-]{1,4096}), *Signature=([0-9a-f]{64})$/;
const TIME = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z$/;
/** How far a caller's clock may be off. */
const SKEW_MS = 15 * 60_000;

export function parseClaim(authorization: string | undefined): Claim | undefined {
  const [, accessKeyId, day, region, names, signature] = CLAIM.exec(authorization ?? '') ?? [];
  if (accessKeyId === undefined || day === undefined || region === undefined) return undefined;
  if (names === undefined || signature === undefined) return undefined;
  return { accessKeyId, scope: { day, region }, signedHeaders: names.split(';'), signature };
}

/**
 * Verifies by any of the secrets; undefined when it was not signed with one, or not in time, or not all that counts.
 * The same work is done whichever fails.
 */
export function verify(
  request: SignedRequest,
  claim: Claim,
  secrets: readonly string[],
  now: Date,
): Verified | undefined {
  const time = request.headers.get('x-amz-date') ?? '';
  const signable = signableOf(request, claim);
  const given = Buffer.from(claim.signature, 'hex');
  let verified: Verified | undefined;
  for (const secret of secrets) {
    const key = signingKey(secret, claim.scope);
    const { signature } = signatureOf(signable, key, time, scopeText(claim.scope));
    const expected = Buffer.from(signature, 'hex');
    if (timingSafeEqual(expected, given))
      verified = { key, scope: claim.scope, time, signature: claim.signature };
  }
  return isCurrent(time, claim.scope.day, now) && coversAll(request, claim) ? verified : undefined;
}

/** Clients that are not ours encode as they like; what is signed is the canonical form of what they mean. */
function signableOf({ method, path, query, headers }: SignedRequest, claim: Claim): Signable {
  const decoded = decodePath(path);
  return {
    method,
    path: decoded === undefined ? path : encodePath(decoded),
    query: (query === undefined || query === '' ? [] : query.split('&')).map((pair) => {
      const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
      return [canonical(name), canonical(value)] as const;
    }),
    headers: claim.signedHeaders.map((name) => [name, headers.get(name) ?? ''] as const),
    payload: headers.get('x-amz-content-sha256') ?? '',
  };
}

function canonical(raw: string): string {
  const decoded = decodeQueryValue(raw);
  return decoded === undefined ? raw : encode(decoded);
}

function isCurrent(time: string, day: string, now: Date): boolean {
  const [, ...parts] = TIME.exec(time) ?? [];
  if (parts.length !== 6 || !time.startsWith(day)) return false;
  const [year = 0, month = 0, date = 0, hour = 0, minute = 0, second = 0] = parts.map(Number);
  return Math.abs(Date.UTC(year, month - 1, date, hour, minute, second) - now.getTime()) <= SKEW_MS;
}

/** Whatever S3 gives a meaning must be signed, so that nobody on the way can add to it. */
function coversAll({ headers }: SignedRequest, { signedHeaders }: Claim): boolean {
  const signed = new Set(signedHeaders);
  if (signed.size !== signedHeaders.length || !signed.has('host')) return false;
  if (!headers.has('x-amz-content-sha256')) return false;
  for (const name of signed) if (!headers.has(name)) return false;
  for (const name of headers.keys()) if (name.startsWith('x-amz-') && !signed.has(name)) return false;
  return true;
}

/** The name of the algorithm of one chunk's signature. */
export const CHUNK_ALGORITHM = `${ALGORITHM}-PAYLOAD`;
export const TRAILER_ALGORITHM = `${ALGORITHM}-TRAILER`;
