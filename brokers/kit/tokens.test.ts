import { describe, expect, it } from 'vitest';
import { bearerToken, digestOf, isToken, newToken, sameDigest } from './tokens.ts';

const token = newToken('dbp').reveal();

describe('tokens', () => {
  it('are of one audience and 256 random bits', () => {
    expect(token).toMatch(/^spc_dbp_[A-Za-z0-9_-]{43}$/);
    expect(isToken(token, 'dbp')).toBe(true);
    expect(isToken(token, 'prv')).toBe(false);
    expect(newToken('dbp').reveal()).not.toBe(token);
  });

  it('are found in the one Authorization header', () => {
    expect(bearerToken(['Host', 'x', 'AuthoriZation', `bearer  ${token}`], 'dbp')?.reveal()).toBe(token);
  });

  it.each([
    ['no header', []],
    ['two headers, even if equal', ['authorization', `Bearer ${token}`, 'Authorization', `Bearer ${token}`]],
    ['another scheme', ['authorization', `Basic ${token}`]],
    ['no scheme', ['authorization', token]],
    ['two tokens', ['authorization', `Bearer ${token} ${token}`]],
    ['another audience', ['authorization', `Bearer ${newToken('prv').reveal()}`]],
    ['a scheme with something before it', ['authorization', `x Bearer ${token}`]],
    ['a token with something before it', ['authorization', `Bearer x${token}`]],
    ['a token that is too long', ['authorization', `Bearer ${token}x`]],
    ['a token in a header of another name', ['proxy-authorization', `Bearer ${token}`]],
  ])('are not taken from %s', (_, headers) => {
    expect(bearerToken(headers, 'dbp')).toBeUndefined();
  });

  it('are compared by digest', () => {
    const digest = digestOf(newToken('dbp'));
    expect(sameDigest(digest, Buffer.from(digest))).toBe(true);
    expect(sameDigest(digest, digest.subarray(1))).toBe(false);
    expect(sameDigest(digest, digestOf(newToken('dbp')))).toBe(false);
  });
});
