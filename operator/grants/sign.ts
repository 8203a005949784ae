import { createPrivateKey, createPublicKey } from 'node:crypto';
import { GRANT_ALGORITHM, GRANT_TYPE, type GrantClaims, grantClaims, grantKeyId } from '@space/manifests';
import { SignJWT } from 'jose';

/** The key that signs grants. The private part is not accessible. */
export interface GrantKey {
  readonly kid: string;
  /** Throws for claims that the broker would not accept. */
  sign(claims: GrantClaims): Promise<string>;
}

/** Parses a key in PEM (PKCS #8). The error contains nothing of the text. */
export function parseGrantKey(pem: string): GrantKey {
  const privateKey = readKey(pem);
  const { crv, x } = createPublicKey(privateKey).export({ format: 'jwk' });
  if (crv !== 'Ed25519' || x === undefined) throw new Error('the grant signing key is not an Ed25519 key');
  const kid = grantKeyId(x);
  const header = { alg: GRANT_ALGORITHM, typ: GRANT_TYPE, kid };
  return {
    kid,
    sign: (claims) =>
      new SignJWT({ ...grantClaims.parse(claims) }).setProtectedHeader(header).sign(privateKey),
  };
}

function readKey(pem: string) {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new Error('the grant signing key is not a private key in PEM');
  }
}
