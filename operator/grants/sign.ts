import { createPrivateKey, createPublicKey } from 'node:crypto';
import { GRANT_ALGORITHM, GRANT_TYPE, type GrantClaims, grantClaims, grantKeyId } from '@space/manifests';
import { SignJWT } from 'jose';

/** The key that grants are signed with. The private part stays inside. */
export interface GrantKey {
  readonly kid: string;
  /** Throws for claims that the broker would not take. */
  sign(claims: GrantClaims): Promise<string>;
}

/** From PEM (PKCS #8). The error says what is wrong and nothing of what was there. */
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
