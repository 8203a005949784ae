import { parseStrictJson, refusal, ServiceError } from '@space/broker-kit';
import { compactVerify } from 'jose';
import {
  GRANT_ALGORITHM,
  GRANT_LENGTH,
  GRANT_LIFETIME,
  GRANT_SKEW,
  type GrantClaims,
  grantClaims,
} from '../../../../manifests/driver/grant.ts';
import type { Tenant } from '../../principals/tenants.ts';
import type { GrantKeys } from './keys.ts';

/** Canonical base64url all through, so that one grant has one spelling. The signature's last character has four spare bits. */
const COMPACT = /^([A-Za-z0-9_-]{1,256})\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]{85}[AQgw]$/;

/** For whom a grant must be. */
export interface Bearer extends Pick<Tenant, 'capsule' | 'app' | 'digest'> {
  readonly space: string;
}

/**
 * The claims of a grant that the operator signed for exactly this bearer, and that is in its time. Throws the one
 * refusal for every other text, and `stale_grant` for one that was good until a moment ago.
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

/** Whether a text may be a grant at all; that says nothing of whether it is a good one. */
export function isGrantShaped(text: string): boolean {
  return text.length <= GRANT_LENGTH && COMPACT.test(text);
}

/** What a caller mends by reading its grant anew. */
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
