import {
  digestOf,
  isToken,
  newToken,
  Secret,
  sameDigest,
  type TokenDigest,
  type Watched,
} from '@space/broker-kit';
import { ConfigError } from './config.ts';
import type { Authority } from './contract.ts';
import { findPrincipal } from './registry/rows.ts';
import type { Connections } from './server/connections.ts';
import { toServiceError } from './server/errors.ts';

/** Who a request proved to come from. */
export type Caller =
  | { readonly authority: 'provisioner' }
  | { readonly authority: 'capsule'; readonly capsule: string; readonly digest: TokenDigest };

export type Authenticate = (token: Secret<string> | undefined) => Promise<Caller | undefined>;

/** Compared instead of a credential that is missing, so that a refusal costs the same work as any other. */
const NOBODY = newToken('dbp');

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

export function createAuthorities(
  connections: Connections,
  provisioners: Watched<readonly TokenDigest[]>,
): Record<Authority, Authenticate> {
  return {
    provisioner: async (token) => {
      const digest = digestOf(token ?? NOBODY);
      // All are compared, whichever matches.
      const matches = provisioners.current().filter((known) => sameDigest(known, digest));
      return matches.length > 0 && token !== undefined ? { authority: 'provisioner' } : undefined;
    },
    capsule: async (token) => {
      const digest = digestOf(token ?? NOBODY);
      try {
        const principal = await findPrincipal(connections.lookup, digest);
        if (principal === undefined || token === undefined) return undefined;
        return { authority: 'capsule', capsule: principal.capsule, digest };
      } catch (error) {
        // Without the registry nobody can be let in; who brought nothing can still be turned away.
        if (token === undefined) return undefined;
        throw toServiceError(error);
      }
    },
  };
}
