import { CANONICAL_HOST } from '@space/contracts/egress';

/** The only port that tunnels lead to. */
export const TLS_PORT = 443;

const PORT = `:${TLS_PORT}`;

/**
 * The host of a CONNECT target in its one canonical form, `host:443`. A trailing dot, capitals, brackets, user info,
 * another port or an address are not that form, and are refused rather than rewritten.
 */
export function parseAuthority(target: string): string | undefined {
  if (!target.endsWith(PORT)) return undefined;
  const host = target.slice(0, -PORT.length);
  return CANONICAL_HOST.test(host) ? host : undefined;
}
