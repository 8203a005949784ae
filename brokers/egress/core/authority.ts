/** The only port that tunnels lead to. */
export const TLS_PORT = 443;

/** Names of two or more LDH labels in lower case, none of them looking like an address. */
const HOST =
  /^(?=.{1,253}:443$)((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?):443$/;

/**
 * The host of a CONNECT target in its one canonical form, `host:443`. A trailing dot, capitals, brackets, user info,
 * another port or an address are not that form, and are refused rather than rewritten.
 */
export function parseAuthority(target: string): string | undefined {
  return HOST.exec(target)?.[1];
}
