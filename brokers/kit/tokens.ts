import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Audience } from '@space/contracts';
import { Secret } from '@space/contracts/secret';

/** SHA-256 of a token. Tokens are 256 random bits, so a slow hash would cost only us and no attacker. */
export type TokenDigest = Buffer;

const TOKEN = /^spc_(prv|dbp|osp|osw|egr|obs)_[A-Za-z0-9_-]{43}$/;
const BEARER = /^Bearer +([^ ]+)$/i;

/** Whether the text is a well-formed token of the audience. */
export function isToken(text: string, audience: Audience): boolean {
  return TOKEN.exec(text)?.[1] === audience;
}

export function newToken(audience: Audience): Secret<string> {
  return new Secret(`spc_${audience}_${randomBytes(32).toString('base64url')}`);
}

export function digestOf(token: Secret<string>): TokenDigest {
  return hash('sha256', token.reveal(), 'buffer');
}

export function sameDigest(a: TokenDigest, b: TokenDigest): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/**
 * The token in the single `Authorization: Bearer` header, if it has the audience. Raw headers are read, since Node
 * silently keeps the first of several Authorization headers.
 */
export function bearerToken(rawHeaders: readonly string[], audience: Audience): Secret<string> | undefined {
  const values: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === 'authorization') values.push(rawHeaders[i + 1] ?? '');
  }
  if (values.length !== 1) return undefined;
  const token = BEARER.exec(values[0] ?? '')?.[1];
  return token !== undefined && isToken(token, audience) ? new Secret(token) : undefined;
}
