import type { Authority } from '@space/contracts';
import type { Secret } from '@space/contracts/secret';
import { isProvisioner } from '../provisioners.ts';
import { digestOf, newToken, type TokenDigest } from '../tokens.ts';

/** The authenticated sender of a request. */
export type Caller =
  | { readonly authority: 'provisioner' | 'observer' }
  | { readonly authority: 'capsule'; readonly capsule: string; readonly digest: TokenDigest };

/** Authenticates a token. The work is the same for every token that is refused. */
export type Authenticate = (token: Secret<string> | undefined) => Promise<Caller | undefined>;

export type Authorities = Readonly<Partial<Record<Authority, Authenticate>>>;

/** Compared in place of a missing credential, so that every refusal costs the same work. */
const NOBODY = newToken('dbp');

export function provisionerAuthority(known: () => readonly TokenDigest[]): Authenticate {
  return async (token) => (isProvisioner(known(), token) ? { authority: 'provisioner' } : undefined);
}

/** Authenticates read-only callers; there are none if no token is known. */
export function observerAuthority(known: () => readonly TokenDigest[]): Authenticate {
  return async (token) => (isProvisioner(known(), token) ? { authority: 'observer' } : undefined);
}

/**
 * Authenticates a Capsule's principal. `find` is one look-up by the digest's index, which takes the same time for every
 * digest.
 */
export function capsuleAuthority(
  find: (digest: TokenDigest) => Promise<{ readonly capsule: string } | undefined>,
): Authenticate {
  return async (token) => {
    const digest = digestOf(token ?? NOBODY);
    try {
      const principal = await find(digest);
      if (principal === undefined || token === undefined) return undefined;
      return { authority: 'capsule', capsule: principal.capsule, digest };
    } catch (error) {
      // Without the registry no credential can be accepted, but a request without one can still be refused.
      if (token === undefined) return undefined;
      throw error;
    }
  };
}
