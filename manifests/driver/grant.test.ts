import { describe, expect, it } from 'vitest';
import {
  GRANT_LIFETIME,
  GRANT_OPERATIONS,
  type GrantClaims,
  grantClaims,
  grantKeyId,
  grantKeySet,
} from './grant.ts';

const claims: GrantClaims = {
  iss: 'platform.space/operator',
  aud: 'platform.objectstore/v1',
  ...{ space: 'home', capsule: 'household', app: 'ledger', cnf: 'c'.repeat(43) },
  ...{ ref: `ocs_${'r'.repeat(22)}`, gen: 1, iat: 1, exp: 2, jti: 'j'.repeat(22) },
  allow: [{ bucket: 'data', prefix: '', operations: ['object.get'] }],
};
const [entry] = claims.allow;
const allowing = (changes: object) => ({ allow: [{ ...entry, ...changes }] });
const isGrant = (changes: object) => grantClaims.safeParse({ ...claims, ...changes }).success;

describe('the claims of a grant', () => {
  it('last a quarter of an hour, and name five operations', () => {
    expect(GRANT_LIFETIME).toBe(900);
    expect(GRANT_OPERATIONS).toEqual([
      'object.get',
      'object.head',
      'object.list',
      'object.put',
      'object.delete',
    ]);
  });

  it.each<[string, object]>([
    ['names of one character', { space: 's', capsule: 'c', app: 'a' }],
    ['the longest names', { space: 's'.repeat(63), capsule: 'c'.repeat(40), app: 'a'.repeat(40) }],
    ['names with hyphens', { capsule: 'a-1-b', app: 'a1-b' }],
    ['the greatest number', { gen: Number.MAX_SAFE_INTEGER, iat: Number.MAX_SAFE_INTEGER }],
    ['all operations', allowing({ operations: [...GRANT_OPERATIONS] })],
    ['the shared bucket', allowing({ bucket: 'shared' })],
    ['whole segments', allowing({ prefix: 'a/b/' })],
    ['a segment with a line end', allowing({ prefix: 'a\nb/' })],
    ['the longest prefix', allowing({ prefix: `${'a'.repeat(899)}/` })],
    ['sixteen entries', { allow: Array(16).fill(entry) }],
  ])('may have %s', (_, changes) => {
    expect(isGrant(changes)).toBe(true);
  });

  it.each<[string, object]>([
    ['another issuer', { iss: 'platform.space/other' }],
    ['another audience', { aud: 'platform.objectstore/v2' }],
    ['no Space', { space: '' }],
    ['too long a Space', { space: 's'.repeat(64) }],
    ['too long a name', { capsule: 'c'.repeat(41) }],
    ['a name that begins with a digit', { app: '1a' }],
    ['a name with something behind it', { app: 'a/b' }],
    ['a short digest', { cnf: 'c'.repeat(42) }],
    ['something before the digest', { cnf: `.${'c'.repeat(43)}` }],
    ['something behind the digest', { cnf: `${'c'.repeat(43)}=` }],
    ['something before the set', { ref: `x${claims.ref}` }],
    ['something behind the set', { ref: `${claims.ref}r` }],
    ['generation 0', { gen: 0 }],
    ['a number that is not exact', { exp: Number.MAX_SAFE_INTEGER + 1 }],
    ['a fraction of a second', { iat: 1.5 }],
    ['something before the id', { jti: `.${claims.jti}` }],
    ['something behind the id', { jti: `${claims.jti}.` }],
    ['no entry', { allow: [] }],
    ['seventeen entries', { allow: Array(17).fill(entry) }],
    ['another bucket', allowing({ bucket: 'other' })],
    ['half a segment', allowing({ prefix: 'a/b' })],
    ['too long a prefix', allowing({ prefix: `${'a'.repeat(900)}/` })],
    ['no operation', allowing({ operations: [] })],
    ['an operation that is none', allowing({ operations: ['object.copy'] })],
    ['six operations', allowing({ operations: [...GRANT_OPERATIONS, 'object.get'] })],
    ['something more', { more: 1 }],
    ['something more in an entry', allowing({ more: 1 })],
  ])('may not have %s', (_, changes) => {
    expect(isGrant(changes)).toBe(false);
  });
});

describe('the file of public keys', () => {
  const jwk = (x: string, changes: object = {}) => ({
    ...{ kty: 'OKP', crv: 'Ed25519', x, kid: grantKeyId(x) },
    ...changes,
  });
  const x = 'x'.repeat(43);
  const isKeySet = (...keys: readonly object[]) => grantKeySet.safeParse({ keys }).success;

  it('has one to eight keys, each with the id that follows from it', () => {
    const many = (count: number) => Array.from({ length: count }, (_, at) => jwk(`${at}`.repeat(43)));
    expect([1, 8].map((count) => isKeySet(...many(count)))).toEqual([true, true]);
    expect([0, 9].map((count) => isKeySet(...many(count)))).toEqual([false, false]);
    for (const alg of ['EdDSA', 'Ed25519']) expect(isKeySet(jwk(x, { alg, use: 'sig' }))).toBe(true);
  });

  it.each<[string, object]>([
    ['the id of another', { kid: grantKeyId('y'.repeat(43)) }],
    ['another algorithm', { alg: 'ES256' }],
    ['another use', { use: 'enc' }],
    ['a private part', { d: x }],
    ['another curve', { crv: 'X25519' }],
  ])('has no key with %s', (_, changes) => {
    expect(isKeySet(jwk(x, changes))).toBe(false);
  });

  it('has no key of another length', () => {
    for (const other of [`${x}x`, `.${x}`, `${x}=`, x.slice(1)]) expect(isKeySet(jwk(other))).toBe(false);
  });
});
