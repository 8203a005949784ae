import { timingSafeEqual } from 'node:crypto';
import { decodePath, decodeQueryValue } from '../../objects/object-key.ts';
import {
  ALGORITHM,
  encode,
  encodePath,
  type Scope,
  type Signable,
  scopeText,
  signatureOf,
  signingKey,
  UNSIGNED_PAYLOAD,
} from '../../upstream/sigv4.ts';
import type { Received } from '../exchange.ts';

/** The claimed signature of a request, in the Authorization header or in the query of a presigned URL. */
export interface Claim {
  readonly accessKeyId: string;
  readonly scope: Scope;
  /** The time of signing, in the basic form of ISO 8601. */
  readonly time: string;
  readonly signedHeaders: readonly string[];
  readonly signature: string;
  /** Seconds for which a presigned URL is valid; undefined for a signature in a header. */
  readonly expires: number | undefined;
}

/** A request with a verified signature, and what the signatures of its chunks need. */
export interface Verified {
  readonly key: Buffer;
  readonly scope: Scope;
  /** `x-amz-date` */
  readonly time: string;
  readonly signature: string;
}

/** Why a request with a valid signature is refused. Only a caller with the key learns it. */
export type Untimely = 'skewed' | 'expired' | 'too long';

export interface SignedRequest {
  readonly method: string;
  /** The path as received. */
  readonly path: string;
  readonly query: string | undefined;
  readonly headers: ReadonlyMap<string, string>;
  /** What the signature claims about the body. */
  readonly payload: string;
}

/**
 * Names of signed headers may have all characters that HTTP permits; whether S3 supports a header is decided elsewhere.
 */
const CLAIM =
  /^AWS4-HMAC-SHA256 +Credential=([^, ]+), *SignedHeaders=([a-z0-9!#$%&'*+.^_`|~;-]{1,4096}), *Signature=([0-9a-f]{64})$/;
const SIGNED = /^[a-z0-9!#$%&'*+.^_`|~;-]{1,4096}$/;
const CREDENTIAL = /^([A-Za-z0-9]{16,128})\/(\d{8})\/([A-Za-z0-9-]{1,64})\/s3\/aws4_request$/;
const TIME = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z$/;
/** The greatest difference of a caller's clock, in milliseconds. */
const SKEW_MS = 15 * 60_000;

/**
 * The most parameters of a query, and names of signed headers: more than any client of S3 sends. Each is decoded, encoded
 * and sorted before it is known whether anybody has signed the request.
 */
const MOST_PARAMETERS = 128;
const MOST_SIGNED = 256;
/** The longest path, that of the longest key, and the longest query: AWS takes no request whose head has more than 8 KiB. */
const MOST_PATH = 4 * 1024;
const MOST_QUERY = 12 * 1024;
/** The most pairs of spaces in the values of headers, which are one space in what is signed. */
const MOST_SPACES = 256;
/** The only parameter of a presigned URL that is not signed, since it is the signature. */
const SIGNATURE = 'X-Amz-Signature';

export function parseClaim(headers: ReadonlyMap<string, string>): Claim | undefined {
  const [, credential = '', names = '', signature = ''] =
    CLAIM.exec(headers.get('authorization') ?? '') ?? [];
  const parsed = parseCredential(credential);
  const signedHeaders = namesIn(names);
  const time = headers.get('x-amz-date') ?? '';
  if (parsed === undefined || signedHeaders === undefined) return undefined;
  return { ...parsed, time, signedHeaders, signature, expires: undefined };
}

/** Undefined if there are too many, or one twice: the value of each is signed, however long it is. */
function namesIn(text: string): readonly string[] | undefined {
  const names = text.split(';', MOST_SIGNED + 1);
  return names.length > MOST_SIGNED || new Set(names).size < names.length ? undefined : names;
}

/** Whether a request has more than anybody signs. */
export const isTooMuch = (path: string, query: string | undefined, headers: Received): boolean =>
  path.length > MOST_PATH || isTooMuchQuery(query ?? '') || hasManySpaces(headers);

const isTooMuchQuery = (query: string) =>
  query.length > MOST_QUERY || query.split('&', MOST_PARAMETERS + 1).length > MOST_PARAMETERS;

function hasManySpaces(headers: Received): boolean {
  let count = 0;
  for (const value of headers.values())
    for (let at = value.indexOf('  '); at !== -1 && count <= MOST_SPACES; at = value.indexOf('  ', at + 2))
      count += 1;
  return count > MOST_SPACES;
}

function parseCredential(text: string): Pick<Claim, 'accessKeyId' | 'scope'> | undefined {
  const [, accessKeyId, day, region] = CREDENTIAL.exec(text) ?? [];
  if (accessKeyId === undefined || day === undefined || region === undefined) return undefined;
  return { accessKeyId, scope: { day, region } };
}

/** The present, and the longest validity of a presigned URL, in seconds. */
interface Timing {
  readonly now: Date;
  readonly longest: number;
}

/**
 * Verifies the signature with each of the secrets; undefined if none of them fits, or if something that matters is not
 * signed. The work is the same whichever check fails, and the time is checked only for a valid signature.
 */
export function verify(
  request: SignedRequest,
  claim: Claim,
  secrets: readonly string[],
  timing: Timing,
): Verified | Untimely | undefined {
  const { time, scope } = claim;
  const signable = signableOf(request, claim);
  const given = Buffer.from(claim.signature, 'hex');
  let verified: Verified | undefined;
  for (const secret of secrets) {
    const key = signingKey(secret, scope);
    const { signature } = signatureOf(signable, key, time, scopeText(scope));
    const expected = Buffer.from(signature, 'hex');
    if (timingSafeEqual(expected, given)) verified = { key, scope, time, signature: claim.signature };
  }
  const signedAt = time.startsWith(scope.day) ? instantOf(time) : undefined;
  if (verified === undefined || signedAt === undefined || !coversAll(request, claim)) return undefined;
  return untimely(claim, signedAt, timing) ?? verified;
}

/** Clients encode differently, so the canonical form of the request is what is signed. */
function signableOf({ method, path, query, headers, payload }: SignedRequest, claim: Claim): Signable {
  const decoded = decodePath(path);
  return {
    method,
    path: decoded === undefined ? path : encodePath(decoded),
    query: pairsOf(query).flatMap(([name, value]) =>
      claim.expires !== undefined && name === SIGNATURE
        ? []
        : ([[canonical(name), canonical(value)]] as const),
    ),
    headers: claim.signedHeaders.map((name) => [name, headers.get(name) ?? ''] as const),
    payload,
  };
}

/** Names and values of a query as received. */
function pairsOf(query: string | undefined): readonly (readonly [name: string, value: string])[] {
  return (query === undefined || query === '' ? [] : query.split('&')).map((pair) => {
    const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
    return [name, value] as const;
  });
}

function canonical(raw: string): string {
  const decoded = decodeQueryValue(raw);
  return decoded === undefined ? raw : encode(decoded);
}

function instantOf(time: string): number | undefined {
  const [, ...parts] = TIME.exec(time) ?? [];
  if (parts.length !== 6) return undefined;
  const [year = 0, month = 0, date = 0, hour = 0, minute = 0, second = 0] = parts.map(Number);
  return Date.UTC(year, month - 1, date, hour, minute, second);
}

function untimely({ expires }: Claim, signedAt: number, { now, longest }: Timing): Untimely | undefined {
  const age = now.getTime() - signedAt;
  if (-age > SKEW_MS) return 'skewed';
  if (expires === undefined) return age > SKEW_MS ? 'skewed' : undefined;
  if (expires > longest) return 'too long';
  return age > expires * 1000 ? 'expired' : undefined;
}

/** Whether everything with a meaning in S3 is signed, so that nobody in between can add to it. */
function coversAll({ headers }: SignedRequest, { signedHeaders, expires }: Claim): boolean {
  const signed = new Set(signedHeaders);
  if (!signed.has('host')) return false;
  if (expires === undefined && !headers.has('x-amz-content-sha256')) return false;
  for (const name of signed) if (!headers.has(name)) return false;
  for (const name of headers.keys()) if (name.startsWith('x-amz-') && !signed.has(name)) return false;
  return true;
}

/** The algorithm's name in the signature of one chunk. */
export const CHUNK_ALGORITHM = `${ALGORITHM}-PAYLOAD`;
export const TRAILER_ALGORITHM = `${ALGORITHM}-TRAILER`;

/** A request that is signed in its query. */
export interface Presigned {
  readonly claim: Claim;
  /** The headers, including those that the signer moved into the query. */
  readonly headers: Received;
  /** The rest of the query. */
  readonly query: string;
}

/** The names of the claims in the query of a presigned URL. */
const NAMES = {
  algorithm: 'X-Amz-Algorithm',
  credential: 'X-Amz-Credential',
  date: 'X-Amz-Date',
  expires: 'X-Amz-Expires',
  signedHeaders: 'X-Amz-SignedHeaders',
  signature: SIGNATURE,
} as const;
const OWN: ReadonlySet<string> = new Set(Object.values(NAMES));
const HEADER = /^x-amz-/i;

/** Whether the query claims to contain the signature; then an Authorization header is not permitted. */
export function isPresigned(query: string | undefined): boolean {
  return pairsOf(query).some(([name]) => OWN.has(name));
}

/**
 * Undefined if two readers could read it differently: a name occurs twice, is escaped, or is also among the headers.
 */
export function parsePresigned(received: Received, query: string | undefined): Presigned | undefined {
  if (received.has('authorization')) return undefined;
  const own = new Map<string, string>();
  const headers = new Map(received);
  const rest: string[] = [];
  for (const [name, raw] of pairsOf(query)) {
    const value = decodeQueryValue(raw);
    if (value === undefined || !/^[A-Za-z0-9-]+$/.test(name)) return undefined;
    if (OWN.has(name)) {
      if (own.has(name)) return undefined;
      own.set(name, value);
    } else if (HEADER.test(name)) {
      if (headers.has(name.toLowerCase())) return undefined;
      headers.set(name.toLowerCase(), value);
    } else rest.push(`${name}=${raw}`);
  }
  const payload = headers.get('x-amz-content-sha256') ?? UNSIGNED_PAYLOAD;
  // Signatures of chunks continue the request's, which does not exist yet when a URL is presigned.
  if (payload.startsWith('STREAMING-')) return undefined;
  headers.set('x-amz-content-sha256', payload);
  const claim = claimOf(own);
  return claim === undefined ? undefined : { claim, headers, query: rest.join('&') };
}

function claimOf(own: ReadonlyMap<string, string>): Claim | undefined {
  const { algorithm, credential, date, expires, signedHeaders, signature } = NAMES;
  const parsed = parseCredential(own.get(credential) ?? '');
  const text = own.get(signedHeaders) ?? '';
  const names = namesIn(text);
  if (parsed === undefined || names === undefined || own.get(algorithm) !== ALGORITHM) return undefined;
  if (!SIGNED.test(text) || !/^[0-9a-f]{64}$/.test(own.get(signature) ?? '')) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(own.get(expires) ?? '')) return undefined;
  return {
    ...parsed,
    time: own.get(date) ?? '',
    signedHeaders: names,
    signature: own.get(signature) ?? '',
    expires: Number(own.get(expires)),
  };
}
