import type { Audience } from '@space/contracts';
import { Secret } from '@space/contracts/secret';
import { ConfigError } from './config.ts';
import { digestOf, isToken, newToken, sameDigest, type TokenDigest } from './tokens.ts';

/** Compared in place of a missing credential, so that every refusal costs the same work. */
const NOBODY = newToken('prv');

/** Parses one or two tokens of an audience, one per line: during an exchange the old and the new one. */
export const parseTokens =
  (audience: Audience, setting: string) =>
  (text: string): readonly TokenDigest[] => {
    const tokens = text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    if (tokens.length < 1 || tokens.length > 2 || !tokens.every((token) => isToken(token, audience)))
      throw new ConfigError(`${setting}: needs one or two lines spc_${audience}_<43 base64url characters>`);
    return tokens.map((token) => digestOf(new Secret(token)));
  };

export const parseProvisionerTokens = parseTokens('prv', 'PROVISIONER_TOKEN_FILE');

/** Whether the token is one of the known ones. All are compared, whichever matches. */
export function isProvisioner(known: readonly TokenDigest[], token: Secret<string> | undefined): boolean {
  const digest = digestOf(token ?? NOBODY);
  const matches = known.filter((one) => sameDigest(one, digest));
  return matches.length > 0 && token !== undefined;
}
