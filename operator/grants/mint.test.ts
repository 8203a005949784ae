import { generateKeyPairSync } from 'node:crypto';
import { inspect } from 'node:util';
import { Secret } from '@space/contracts/secret';
import { expect, test } from 'vitest';
import { newIssuer } from '../../brokers/objectstore/byok/grants/testing/issuer.ts';
import { parseGrantKeys, verifyGrant } from '../../brokers/objectstore/byok/grants/verify.ts';
import { ageOf, claimsOf, type Subject } from './mint.ts';
import { GrantKeyError, grantKeyFile, parseGrantKey } from './sign.ts';

const NOW = new Date('2026-11-21T12:00:00Z');
const issuer = newIssuer();
const pem = issuer.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const key = parseGrantKey(pem);
const token = new Secret(`spc_osw_${'t'.repeat(43)}`);
const selection = { setId: `ocs_${'s'.repeat(22)}`, generation: 2 };
const subject: Subject = { space: 'home', capsule: 'household', app: 'ledger', token, selection };
const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);

test('the broker accepts what the operator signs, which contains nothing of the token', async () => {
  const grant = await key.sign(claimsOf(subject, NOW));
  const { digestOf, Secret: BrokerSecret } = await import('@space/broker-kit');
  const digest = digestOf(new BrokerSecret(token.reveal()));
  const bearer = { space: 'home', capsule: 'household', app: 'ledger', digest };
  const keys = parseGrantKeys(issuer.keySet());
  const claims = await verifyGrant(grant, { keys, bearer, now: NOW });
  expect(claims).toMatchObject({ ref: selection.setId, gen: 2, iat: NOW.getTime() / 1_000 });
  expect(claims.exp - claims.iat).toBe(900);
  expect(Buffer.from(grant.split('.')[1] ?? '', 'base64url').toString()).not.toContain(token.reveal());
});

test('a grant allows the Assistant everything in both of its buckets', () => {
  const { allow } = claimsOf(subject, NOW);
  const operations = ['object.get', 'object.head', 'object.list', 'object.put', 'object.delete'];
  expect(allow).toEqual([
    { bucket: 'data', prefix: '', operations },
    { bucket: 'shared', prefix: '', operations },
  ]);
});

test('a grant is kept while it is recent and still correct', async () => {
  const grant = await key.sign(claimsOf(subject, NOW));
  const age = (change: Partial<Subject> = {}, seconds = 10, kid = key.kid) =>
    ageOf(grant, kid, { ...subject, ...change }, after(seconds));
  expect([age(), age({}, 0), age({}, 299)]).toEqual(['fresh', 'fresh', 'fresh']);
  expect([age({}, 300), age({}, 899)]).toEqual(['old', 'old']);
  // Expired; issued by a clock that was later set back; signed with another key.
  expect([age({}, 900), age({}, -1), age({}, 10, newIssuer().kid)]).toEqual(['stale', 'stale', 'stale']);
  expect(age({ selection: { ...selection, generation: 3 } })).toBe('stale');
  expect(age({ selection: { ...selection, setId: `ocs_${'x'.repeat(22)}` } })).toBe('stale');
  expect(age({ token: new Secret(`spc_osw_${'u'.repeat(43)}`) })).toBe('stale');
  expect(age({ capsule: 'other' }, 300)).toBe('stale');
});

test.each(['', 'x', '..', 'e30.e30.x', 'bnVsbA.bnVsbA.x'])(
  'a text that is not a grant counts as stale: %j',
  (text) => {
    expect(ageOf(text, key.kid, subject, NOW)).toBe('stale');
  },
);

test('a token that is signed with our key but is not a grant counts as stale', () => {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  for (const claims of [{}, { ...claimsOf(subject, NOW), iss: 'another' }])
    expect(ageOf(`${part({ kid: key.kid })}.${part(claims)}.x`, key.kid, subject, NOW)).toBe('stale');
});

test('no grant is signed that the broker would refuse', () => {
  expect(() => key.sign({ ...claimsOf(subject, NOW), allow: [] })).toThrow();
});

test('the key has to be Ed25519 in PEM, and errors about another key do not contain it', () => {
  expect(inspect(key, { depth: 9, showHidden: true })).not.toContain('PRIVATE');
  expect(key.kid).toBe(issuer.kid);
  // The second curve cannot be exported as a JWK at all.
  for (const namedCurve of ['P-256', 'secp224r1']) {
    const other = generateKeyPairSync('ec', { namedCurve }).privateKey;
    expect(() => parseGrantKey(other.export({ type: 'pkcs8', format: 'pem' }).toString())).toThrow(
      new GrantKeyError('is not an Ed25519 key'),
    );
  }
  for (const text of ['', 'canary', pem.replace('MC4', 'MC5')])
    expect(() => parseGrantKey(text)).toThrow(new GrantKeyError('is not a private key in PEM'));
});

test('a file that cannot be read is named, and the next use reads it again', async () => {
  const cause = new Error('ENOENT');
  const found = [cause, 'canary', pem];
  const read = grantKeyFile('/etc/key', async () => {
    const next = found.shift();
    if (typeof next !== 'string') throw next;
    return next;
  });
  await expect(read()).rejects.toMatchObject({
    ...{ name: 'GrantKeyError', message: 'the grant signing key cannot be read from /etc/key', cause },
  });
  await expect(read()).rejects.toThrow('the grant signing key is not a private key in PEM');
  expect((await read()).kid).toBe(issuer.kid);
});
