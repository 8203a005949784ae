import { Secret } from '@space/contracts/secret';
import { ConfigError } from './config.ts';
import { digestOf, isToken, newToken, sameDigest, type TokenDigest } from './tokens.ts';

/** Compared instead of a credential that is missing, so that a refusal costs the same work as any other. */
const NOBODY = newToken('prv');

/** One or two provisioner tokens, one a line: old and new, while they are being exchanged. */
export function parseProvisionerTokens(text: string): readonly TokenDigest[] {
  const tokens = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (tokens.length < 1 || tokens.length > 2 || !tokens.every((token) => isToken(token, 'prv'))) {
    throw new ConfigError('PROVISIONER_TOKEN_FILE: needs one or two lines spc_prv_<43 base64url characters>');
  }
  return tokens.map((token) => digestOf(new Secret(token)));
}

/** Is it one of the tokens? All are compared, whichever matches. */
export function isProvisioner(known: readonly TokenDigest[], token: Secret<string> | undefined): boolean {
  const digest = digestOf(token ?? NOBODY);
  const matches = known.filter((one) => sameDigest(one, digest));
  return matches.length > 0 && token !== undefined;
}
