import type { Response } from 'express';
import { expect, test, vi } from 'vitest';
import { endCookie, readCookie, setCookie } from './cookies.ts';

const NAME = '__Host-space-session';

test('a cookie is only for this host, sent over TLS, hidden from scripts, and not sent by other sites', () => {
  const response = { cookie: vi.fn(), clearCookie: vi.fn() };
  const attributes = { path: '/', secure: true, httpOnly: true, sameSite: 'strict' };
  setCookie(response as unknown as Response, 'session', 'value', 60);
  expect(response.cookie.mock.calls).toEqual([[NAME, 'value', { ...attributes, maxAge: 60_000 }]]);
  endCookie(response as unknown as Response, 'session');
  expect(response.clearCookie.mock.calls).toEqual([[NAME, attributes]]);
  // The issuer, which is another site, leads back with the trip's.
  setCookie(response as unknown as Response, 'trip', 'value', 60);
  expect(response.cookie.mock.lastCall?.[2]).toMatchObject({ sameSite: 'lax' });
});

test.each([
  ['no cookie at all', undefined, undefined],
  ['others only', 'a=1; __Host-space-trip=x', undefined],
  ['it alone', `${NAME}=value`, 'value'],
  ['it among others', `a=1; ${NAME}=va=lue ;b=2`, 'va=lue'],
  ['it without a value', `${NAME}=`, ''],
  ['one whose name only ends like it', `x${NAME}=value`, undefined],
  ['one whose name only begins like it', `${NAME}2=value`, undefined],
  ['two, one of which somebody else has set', `${NAME}=a; ${NAME}=b`, undefined],
])('a session is read from %s', (_, header, value) => {
  expect(readCookie(header, 'session')).toBe(value);
});
