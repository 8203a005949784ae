import { ConfigError, parseStrictJson, refusal, ServiceError } from '@space/broker-kit';
import { type CryptoKey, compactVerify, importJWK } from 'jose';
import {
  GRANT_ALGORITHM,
  GRANT_LENGTH,
  GRANT_LIFETIME,
  GRANT_SKEW,
  GRANT_TYPE,
  type GrantClaims,
  type GrantOperation,
  grantClaims,
  grantKeySet,
} from '../../../../manifests/driver/grant.ts';
import type { Bucket } from '../../objects/object-key.ts';
import type { Tenant } from '../../objects/types.ts';

/** Public keys by the encoded header of a grant, which is compared as text and never interpreted. */
export type GrantKeys = ReadonlyMap<string, Promise<CryptoKey>>;

/** The operator's public keys, as a JWKS. A file with a private key is refused, since it does not belong here. */
export function parseGrantKeys(text: string): GrantKeys {
  const { data } = grantKeySet.safeParse(parsed(text));
  if (data === undefined)
    throw new ConfigError('GRANT_KEYS_FILE: not a JWKS of public Ed25519 keys, each with the kid of its key');
  return new Map(data.keys.map(({ kty, crv, x, kid }) => [headerText(kid), imported({ kty, crv, x })]));
}

function headerText(kid: string): string {
  const header = { alg: GRANT_ALGORITHM, typ: GRANT_TYPE, kid };
  return Buffer.from(JSON.stringify(header)).toString('base64url');
}

async function imported(jwk: { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }) {
  const key = await importJWK(jwk, GRANT_ALGORITHM);
  if (key instanceof Uint8Array) throw new Error('not a public key');
  return key;
}

function parsed(text: string): unknown {
  try {
    return parseStrictJson(Buffer.from(text));
  } catch {
    return undefined;
  }
}

/**
 * Canonical base64url only, so that one grant has one form. The last character of the signature has four spare bits.
 */
const COMPACT = /^([A-Za-z0-9_-]{1,256})\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]{85}[AQgw]$/;

/** The workload that a grant must name. */
export interface Bearer extends Pick<Tenant, 'capsule' | 'app' | 'digest'> {
  readonly space: string;
}

/**
 * The claims of a grant that the operator signed for exactly this bearer and that is valid now. Throws `stale_grant`
 * for one that was valid until a moment ago, and the one refusal for everything else.
 */
export async function verifyGrant(
  text: string,
  { keys, bearer, now }: { readonly keys: GrantKeys; readonly bearer: Bearer; readonly now: Date },
): Promise<GrantClaims> {
  const claims = await signedClaims(text, keys);
  if (claims === undefined || !isFor(claims, bearer)) throw refusal();
  const seconds = now.getTime() / 1_000;
  const { iat, exp } = claims;
  if (exp <= iat || exp - iat > GRANT_LIFETIME || iat > seconds + GRANT_SKEW) throw refusal();
  if (exp + GRANT_SKEW <= seconds) throw staleGrant('expired');
  return claims;
}

/** Whether a text has the form of a grant, valid or not. */
export function isGrantShaped(text: string): boolean {
  return text.length <= GRANT_LENGTH && COMPACT.test(text);
}

/** The error that a caller resolves by reading its grant again. */
export function staleGrant(why: string): ServiceError {
  return new ServiceError('stale_grant', `grant: ${why}`);
}

async function signedClaims(text: string, keys: GrantKeys): Promise<GrantClaims | undefined> {
  if (!isGrantShaped(text)) return undefined;
  const [, header = '', payload = ''] = COMPACT.exec(text) ?? [];
  const key = await keys.get(header);
  if (key === undefined || Buffer.from(payload, 'base64url').toString('base64url') !== payload)
    return undefined;
  try {
    const verified = await compactVerify(text, key, { algorithms: [GRANT_ALGORITHM] });
    return grantClaims.safeParse(parseStrictJson(verified.payload)).data;
  } catch {
    return undefined;
  }
}

function isFor({ space, capsule, app, cnf }: GrantClaims, bearer: Bearer): boolean {
  return (
    space === bearer.space &&
    capsule === bearer.capsule &&
    app === bearer.app &&
    cnf === bearer.digest.toString('base64url')
  );
}

/** An action that a request is about to take. */
export interface Need {
  readonly operation: GrantOperation;
  readonly bucket: Bucket;
  /** The key; for a list its prefix. */
  readonly path: string;
}

/** @throws ServiceError the one refusal, unless a single entry of the grant allows exactly this */
export function demand({ allow }: Pick<GrantClaims, 'allow'>, need: Need): void {
  const allowed = allow.some(
    ({ bucket, prefix, operations }) =>
      bucket === need.bucket && operations.includes(need.operation) && need.path.startsWith(prefix),
  );
  if (!allowed) throw refusal();
}
