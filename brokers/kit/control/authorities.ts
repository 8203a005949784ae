import { toServiceError } from '../postgres/errors.ts';
import { isProvisioner } from '../provisioners.ts';
import type { Secret } from '../secret.ts';
import { type Audience, digestOf, newToken, type TokenDigest } from '../tokens.ts';
import type { Authority } from './contract.ts';

/** Who a request proved to come from. */
export type Caller =
  | { readonly authority: 'provisioner' }
  | { readonly authority: 'capsule'; readonly capsule: string; readonly digest: TokenDigest };

type Authenticate = (token: Secret<string> | undefined) => Promise<Caller | undefined>;

export interface Authorities {
  /** The audience of the Capsule principals' tokens. */
  readonly audience: Audience;
  readonly authenticate: Readonly<Record<Authority, Authenticate>>;
}

/** Compared instead of a credential that is missing, so that a refusal costs the same work as any other. */
const NOBODY = newToken('dbp');

export function createAuthorities(options: {
  readonly audience: Audience;
  readonly provisioners: () => readonly TokenDigest[];
  /** One look-up by the digest's index, the same for every digest. */
  readonly findPrincipal: (digest: TokenDigest) => Promise<{ readonly capsule: string } | undefined>;
}): Authorities {
  return {
    audience: options.audience,
    authenticate: {
      provisioner: async (token) =>
        isProvisioner(options.provisioners(), token) ? { authority: 'provisioner' } : undefined,
      capsule: async (token) => {
        const digest = digestOf(token ?? NOBODY);
        try {
          const principal = await options.findPrincipal(digest);
          if (principal === undefined || token === undefined) return undefined;
          return { authority: 'capsule', capsule: principal.capsule, digest };
        } catch (error) {
          // Without the registry nobody can be let in; who brought nothing can still be turned away.
          if (token === undefined) return undefined;
          throw toServiceError(error);
        }
      },
    },
  };
}
