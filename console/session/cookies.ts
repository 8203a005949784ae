import type { Response } from 'express';
import type { Purpose } from './sealed.ts';

/** `__Host-` binds a cookie to this host: no other host of its domain can set it. */
const NAMES: Readonly<Record<Purpose, string>> = {
  session: '__Host-space-session',
  'sign-in': '__Host-space-sign-in',
  trip: '__Host-space-trip',
  kept: '__Host-space-kept',
};

/**
 * Lax for the redirect to the issuer and back, since strict cookies are not sent after a redirect from another site.
 */
const attributesOf = (purpose: Purpose) =>
  ({
    path: '/',
    secure: true,
    httpOnly: true,
    sameSite: purpose === 'trip' ? 'lax' : 'strict',
  }) as const;

/** The cookie of a purpose; undefined if there is none, or if there are two, one of which must be somebody else's. */
export function readCookie(header: string | undefined, purpose: Purpose): string | undefined {
  const found = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${NAMES[purpose]}=`));
  const [only, ...more] = found;
  return more.length > 0 ? undefined : only?.slice(NAMES[purpose].length + 1);
}

export function setCookie(response: Response, purpose: Purpose, value: string, seconds: number): void {
  response.cookie(NAMES[purpose], value, { ...attributesOf(purpose), maxAge: seconds * 1000 });
}

export function endCookie(response: Response, purpose: Purpose): void {
  response.clearCookie(NAMES[purpose], attributesOf(purpose));
}
