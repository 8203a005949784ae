import { createHash } from 'node:crypto';
import * as z from 'zod';

/**
 * The grant: what the operator signs and the object-storage broker verifies before it uses a Capsule's own
 * credential. It names by reference, and holds nothing that opens a bucket anywhere.
 */

/** The members of the protected header; a grant with any other header is refused. */
export const GRANT_ALGORITHM = 'EdDSA';
export const GRANT_TYPE = 'platform-objgrant+jwt';
export const GRANT_ISSUER = 'platform.space/operator';
export const GRANT_AUDIENCE = 'platform.objectstore/v1';
/** The lifetime of a grant, in seconds. */
export const GRANT_LIFETIME = 15 * 60;
/** How far the two clocks may be apart, in seconds. */
export const GRANT_SKEW = 30;
/** The most characters of a grant. */
export const GRANT_LENGTH = 4_096;

/** What may be granted. Copying is to get and to put; an upload in parts, from begin to end, is to put. */
export const GRANT_OPERATIONS = [
  'object.get',
  'object.head',
  'object.list',
  'object.put',
  'object.delete',
] as const;
export type GrantOperation = (typeof GRANT_OPERATIONS)[number];

const id = z
  .string()
  .max(40)
  .regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/);
const seconds = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);

export const grantClaims = z.strictObject({
  iss: z.literal(GRANT_ISSUER),
  aud: z.literal(GRANT_AUDIENCE),
  space: z.string().min(1).max(63),
  capsule: id,
  /** The Assistant's `platform.id`. */
  app: id,
  /**
   * SHA-256 of the Assistant's workload principal, 43 base64url characters. No principal is used twice, so this names
   * one incarnation of the Capsule and of the Assistant too.
   */
  cnf: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  /** The id of the credential set. */
  ref: z.string().regex(/^ocs_[A-Za-z0-9_-]{22}$/),
  /** The generation of the credential set. */
  gen: seconds,
  allow: z
    .array(
      z.strictObject({
        /** The logical bucket. */
        bucket: z.enum(['data', 'shared']),
        /** Whole segments: empty, or ending in a slash, so that `a/b/` is not `a/bc`. */
        prefix: z
          .string()
          .max(900)
          .regex(/^(?:.*\/)?$/s),
        operations: z.array(z.enum(GRANT_OPERATIONS)).min(1).max(GRANT_OPERATIONS.length),
      }),
    )
    .min(1)
    .max(16),
  iat: seconds,
  exp: seconds,
  jti: z.string().regex(/^[A-Za-z0-9_-]{22}$/),
});

export type GrantClaims = z.infer<typeof grantClaims>;

/** The public key as a JWK. Its id follows from it, so that none can pass for another. */
const verificationKey = z
  .strictObject({
    kty: z.literal('OKP'),
    crv: z.literal('Ed25519'),
    x: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
    kid: z.string(),
    use: z.literal('sig').optional(),
    alg: z.enum(['EdDSA', 'Ed25519']).optional(),
  })
  .refine(({ kid, x }) => kid === grantKeyId(x), 'kid does not belong to the key');

/** The file of public keys: the current one, and while it is exchanged the old or the next beside it. */
export const grantKeySet = z.strictObject({ keys: z.array(verificationKey).min(1).max(8) });

/** The first 16 hexadecimal digits of the SHA-256 that RFC 7638 makes a thumbprint of. */
export function grantKeyId(x: string): string {
  const text = JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x });
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
