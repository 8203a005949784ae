import { decodeQueryValue } from '../../objects/object-key.ts';
import { ALGORITHM, UNSIGNED_PAYLOAD } from '../../upstream/sigv4.ts';
import type { Received } from '../headers.ts';
import { type Claim, pairsOf, parseCredential, SIGNATURE } from './signature.ts';

/** A request that is signed in its query. */
export interface Presigned {
  readonly claim: Claim;
  /** Its headers, with those that whoever signed it put into the query instead. */
  readonly headers: Received;
  /** What is left of the query. */
  readonly query: string;
}

/** Written so, in the query of a presigned URL. */
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

/** Whether somebody means the query to be the signature; then the Authorization header must not mean it, too. */
export function isPresigned(query: string | undefined): boolean {
  return pairsOf(query).some(([name]) => OWN.has(name));
}

/** Undefined for what two readers might read differently: a name twice, or escaped, or also among the headers. */
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
  // Chunks are signed after a signature that is not there yet when the URL is made.
  if (payload.startsWith('STREAMING-')) return undefined;
  headers.set('x-amz-content-sha256', payload);
  const claim = claimOf(own);
  return claim === undefined ? undefined : { claim, headers, query: rest.join('&') };
}

function claimOf(own: ReadonlyMap<string, string>): Claim | undefined {
  const { algorithm, credential, date, expires, signedHeaders, signature } = NAMES;
  const parsed = parseCredential(own.get(credential) ?? '');
  const names = own.get(signedHeaders) ?? '';
  if (parsed === undefined || own.get(algorithm) !== ALGORITHM) return undefined;
  if (!/^[a-z0-9;-]{1,4096}$/.test(names) || !/^[0-9a-f]{64}$/.test(own.get(signature) ?? ''))
    return undefined;
  if (!/^[1-9]\d{0,8}$/.test(own.get(expires) ?? '')) return undefined;
  return {
    ...parsed,
    time: own.get(date) ?? '',
    signedHeaders: names.split(';'),
    signature: own.get(signature) ?? '',
    expires: Number(own.get(expires)),
  };
}
