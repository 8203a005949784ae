import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { SignJWT } from 'jose';
import {
  GRANT_ALGORITHM,
  GRANT_AUDIENCE,
  GRANT_ISSUER,
  GRANT_OPERATIONS,
  GRANT_TYPE,
  type GrantClaims,
  grantKeyId,
} from '../../../../../manifests/driver/grant.ts';

/** A signer of valid and invalid grants. */
export interface Issuer {
  readonly privateKey: KeyObject;
  readonly x: string;
  readonly kid: string;
  /** The text of a JWKS with the public keys of these. */
  keySet(...others: readonly Issuer[]): string;
  sign(claims: object, header?: object): Promise<string>;
}

export function newIssuer(): Issuer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const { x = '' } = publicKey.export({ format: 'jwk' });
  const kid = grantKeyId(x);
  const jwk = (issuer: Pick<Issuer, 'x' | 'kid'>) => ({
    kty: 'OKP',
    crv: 'Ed25519',
    x: issuer.x,
    kid: issuer.kid,
  });
  return {
    privateKey,
    x,
    kid,
    keySet: (...others) => JSON.stringify({ keys: [{ x, kid }, ...others].map(jwk) }),
    sign: (claims, header = { alg: GRANT_ALGORITHM, typ: GRANT_TYPE, kid }) =>
      new SignJWT({ ...claims }).setProtectedHeader(header as { alg: string }).sign(privateKey),
  };
}

/** Claims that allow everything, except for the given changes. */
export function claimsFor(
  about: Pick<GrantClaims, 'capsule' | 'app' | 'cnf' | 'ref' | 'gen'> & Partial<GrantClaims>,
  now = new Date(),
): GrantClaims {
  const iat = Math.floor(now.getTime() / 1_000);
  return {
    iss: GRANT_ISSUER,
    aud: GRANT_AUDIENCE,
    space: 'test',
    allow: (['data', 'shared'] as const).map((bucket) => ({
      bucket,
      prefix: '',
      operations: [...GRANT_OPERATIONS],
    })),
    iat,
    exp: iat + 600,
    jti: randomBytes(16).toString('base64url'),
    ...about,
  };
}
