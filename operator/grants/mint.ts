import { createHash, randomBytes } from 'node:crypto';
import type { Secret } from '@space/contracts/secret';
import {
  GRANT_AUDIENCE,
  GRANT_ISSUER,
  GRANT_LIFETIME,
  GRANT_OPERATIONS,
  type GrantClaims,
  grantClaims,
} from '@space/manifests';

/** The credential set that a Capsule has selected, and its generation. */
export interface Selection {
  readonly setId: string;
  readonly generation: number;
}

/** Whom a grant is for, and which credential set it names. */
export interface Subject {
  readonly space: string;
  readonly capsule: string;
  readonly app: string;
  /** The Assistant's workload principal; the grant contains its digest. */
  readonly token: Secret;
  readonly selection: Selection;
}

/**
 * Seconds after which a grant is renewed: well before its end, since the kubelet takes a minute or two to update the
 * pod.
 */
const RENEW_AFTER = GRANT_LIFETIME / 3;

export function claimsOf(
  { space, capsule, app, token, selection }: Subject,
  now: Date,
  random: (bytes: number) => Buffer = randomBytes,
): GrantClaims {
  const iat = Math.floor(now.getTime() / 1_000);
  return {
    iss: GRANT_ISSUER,
    aud: GRANT_AUDIENCE,
    ...{ space, capsule, app },
    cnf: createHash('sha256').update(token.reveal()).digest('base64url'),
    ref: selection.setId,
    gen: selection.generation,
    // The grant permits everything that the Assistant may do in the Space's bucket.
    allow: (['data', 'shared'] as const).map((bucket) => ({
      bucket,
      prefix: '',
      operations: [...GRANT_OPERATIONS],
    })),
    iat,
    exp: iat + GRANT_LIFETIME,
    jti: random(16).toString('base64url'),
  };
}

/**
 * The state of an existing grant: `fresh`; `old`, which is valid and has the right claims; or `stale`, which the broker
 * refuses or soon may, since its claims or its key have changed.
 */
export function ageOf(grant: string, kid: string, subject: Subject, now: Date): 'fresh' | 'old' | 'stale' {
  const [header, claims] = grant.split('.').slice(0, 2).map(decoded);
  const read = grantClaims.safeParse(claims).data;
  if (read === undefined || (header as { kid?: unknown } | undefined)?.kid !== kid) return 'stale';
  const { iat, exp: _exp, jti: _jti, ...said } = read;
  const { iat: at, exp: _until, jti: _id, ...wanted } = grantClaims.parse(claimsOf(subject, now));
  if (at < iat || at - iat >= GRANT_LIFETIME || JSON.stringify(said) !== JSON.stringify(wanted))
    return 'stale';
  return at - iat < RENEW_AFTER ? 'fresh' : 'old';
}

function decoded(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}
