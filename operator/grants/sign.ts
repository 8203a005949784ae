import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { GRANT_ALGORITHM, GRANT_TYPE, type GrantClaims, grantClaims, grantKeyId } from '@space/manifests';
import { SignJWT } from 'jose';

/** The key that signs grants. The private part is not accessible. */
export interface GrantKey {
  readonly kid: string;
  /** Throws for claims that the broker would not accept. */
  sign(claims: GrantClaims): Promise<string>;
}

/** Why there is no signing key. The message contains nothing of the text of the key. */
export class GrantKeyError extends Error {
  override readonly name = 'GrantKeyError';
  /** What is wrong with the key; the end of a sentence about it. */
  readonly problem: string;

  constructor(problem: string, options: { readonly cause?: unknown } = {}) {
    super(`the grant signing key ${problem}`, options);
    this.problem = problem;
  }
}

/** The key in a file, which is read for every use, so that an exchanged or a mended one signs at once. */
export function grantKeyFile(file: string, read: (file: string) => Promise<string>): () => Promise<GrantKey> {
  return async () => {
    const pem = await read(file).catch((cause: unknown) => {
      throw new GrantKeyError(`cannot be read from ${file}`, { cause });
    });
    return parseGrantKey(pem);
  };
}

/** Parses a key in PEM (PKCS #8). @throws GrantKeyError */
export function parseGrantKey(pem: string): GrantKey {
  const privateKey = readKey(pem);
  const x = publicPart(privateKey);
  if (x === undefined) throw new GrantKeyError('is not an Ed25519 key');
  const kid = grantKeyId(x);
  const header = { alg: GRANT_ALGORITHM, typ: GRANT_TYPE, kid };
  return {
    kid,
    sign: (claims) =>
      new SignJWT({ ...grantClaims.parse(claims) }).setProtectedHeader(header).sign(privateKey),
  };
}

function readKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    // The cause could quote the text.
    throw new GrantKeyError('is not a private key in PEM');
  }
}

/** The public part of an Ed25519 key. Some keys of other types cannot even be exported as a JWK. */
const publicPart = (key: KeyObject): string | undefined =>
  key.asymmetricKeyType === 'ed25519' ? createPublicKey(key).export({ format: 'jwk' }).x : undefined;
