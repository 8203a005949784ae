import { ConfigError, parseStrictJson } from '@space/broker-kit';
import { type CryptoKey, importJWK } from 'jose';
import { GRANT_ALGORITHM, GRANT_TYPE, grantKeySet } from '../../../../manifests/driver/grant.ts';

/** The key of each header that a grant may have, by the header's text in the grant: nothing of it is interpreted. */
export type GrantKeys = ReadonlyMap<string, Promise<CryptoKey>>;

/** The operator's public keys, as a JWKS. A file with anything private in it is refused: it lies in the wrong place. */
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
