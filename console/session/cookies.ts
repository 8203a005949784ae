import type { Response } from 'express';
import type { Purpose } from './sealed.ts';

/** `__Host-` ties a cookie to this very host: no other one of its domain can set it. */
const NAMES: Readonly<Record<Purpose, string>> = {
  session: '__Host-space-session',
  'sign-in': '__Host-space-sign-in',
  trip: '__Host-space-trip',
  kept: '__Host-space-kept',
};

/** Lax for the trip: strict cookies are not sent on the issuer's redirect. */
const attributesOf = (purpose: Purpose) =>
  ({
    path: '/',
    secure: true,
    httpOnly: true,
    sameSite: purpose === 'trip' ? 'lax' : 'strict',
  }) as const;

/** The cookie of a purpose; undefined when there is none, or two, of which one is somebody else's. */
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
