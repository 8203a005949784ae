import { createHmac, randomBytes, sign } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { GRANT_LENGTH, GRANT_TYPE, type GrantClaims } from '../../../../manifests/driver/grant.ts';
import { claimsFor, newIssuer } from './testing/issuer.ts';
import { type Bearer, demand, isGrantShaped, parseGrantKeys, verifyGrant } from './verify.ts';

const NOW = new Date('2026-11-21T12:00:00Z');
const issuer = newIssuer();
const stranger = newIssuer();
const keys = parseGrantKeys(issuer.keySet());
const digest = randomBytes(32);
const bearer: Bearer = { space: 'test', capsule: 'home', app: 'ledger', digest };
const about = {
  capsule: 'home',
  app: 'ledger',
  cnf: digest.toString('base64url'),
  ref: `ocs_${randomBytes(16).toString('base64url')}`,
  gen: 3,
};
const good = claimsFor(about, NOW);
const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);

/** `ok`, or the code of the refusal. */
async function verdict(text: string, options: { bearer?: Bearer; now?: Date } = {}): Promise<string> {
  try {
    await verifyGrant(text, { keys, bearer, now: NOW, ...options });
    return 'ok';
  } catch (error) {
    return (error as { code: string }).code;
  }
}
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

test('a grant is valid for its bearer, and contains what was signed', async () => {
  const claims = await verifyGrant(await issuer.sign(good), { keys, bearer, now: NOW });
  expect(claims).toEqual(good);
});

describe('a forged grant is refused', () => {
  test('by another key, also under the name of ours', async () => {
    expect(await verdict(await stranger.sign(good))).toBe('forbidden');
    const header = { alg: 'EdDSA', typ: GRANT_TYPE, kid: issuer.kid };
    expect(await verdict(await stranger.sign(good, header))).toBe('forbidden');
  });

  test.each([
    ['without an algorithm', { alg: 'none' }],
    ['with the public key as a shared secret', { alg: 'HS256' }],
    ['with the algorithm under its other name', { alg: 'Ed25519' }],
    ['of another type', { typ: 'JWT' }],
    ['with an unknown kid', { kid: '0123456789abcdef' }],
    ['with a kid that is a path', { kid: '../../etc/passwd' }],
    ['with a key of its own', { jwk: { kty: 'OKP', crv: 'Ed25519', x: stranger.x } }],
    ['with an address of keys', { jku: 'https://keys.example/jwks.json' }],
    ['with a critical extension', { crit: ['b64'], b64: false }],
  ])('%s', async (_what, change) => {
    const header = { alg: 'EdDSA', typ: GRANT_TYPE, kid: issuer.kid, ...change };
    const body = `${encode(header)}.${encode(good)}`;
    const mac = createHmac('sha256', Buffer.from(issuer.x, 'base64url')).update(body).digest('base64url');
    expect(await verdict(`${body}.`)).toBe('forbidden');
    expect(await verdict(`${body}.${mac}`)).toBe('forbidden');
    const [, , signature] = (await issuer.sign(good)).split('.');
    expect(await verdict(`${body}.${signature}`)).toBe('forbidden');
  });

  test('with the same header in another order or spelling, though it is signed', async () => {
    const { kid } = issuer;
    expect(await verdict(await issuer.sign(good, { typ: GRANT_TYPE, alg: 'EdDSA', kid }))).toBe('forbidden');
    const more = { alg: 'EdDSA', typ: GRANT_TYPE, kid, cty: 'x' };
    expect(await verdict(await issuer.sign(good, more))).toBe('forbidden');
  });

  test('by a change of any one character', async () => {
    const text = await issuer.sign(good);
    await fc.assert(
      fc.asyncProperty(fc.nat(text.length - 1), fc.constantFrom(...'AZaz09-_.= '), async (at, character) => {
        fc.pre(text[at] !== character);
        const changed = text.slice(0, at) + character + text.slice(at + 1);
        expect(await verdict(changed)).toBe('forbidden');
      }),
      { numRuns: 300 },
    );
  });

  test('of any other text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ maxLength: 6_000 }), async (text) => {
        expect(await verdict(text)).toBe('forbidden');
      }),
    );
  });
});

describe('a signed text that is not in the form of a grant is refused', () => {
  /** The texts of a grant's parts, signed as they are. */
  const signed = (header: string, payload: string) => {
    const body = `${header}.${payload}`;
    return `${body}.${sign(null, Buffer.from(body), issuer.privateKey).toString('base64url')}`;
  };
  const header = encode({ alg: 'EdDSA', typ: GRANT_TYPE, kid: issuer.kid });

  test('with its claims in another spelling of the same bytes', async () => {
    // Of a last group of less than three bytes, the last character has spare bits.
    const gen = [1, 10].find((one) => encode({ ...good, gen: one }).length % 4 !== 0);
    const payload = encode({ ...good, gen });
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const twin = payload.slice(0, -1) + alphabet[alphabet.indexOf(payload.at(-1)!) ^ 1];
    expect(Buffer.from(twin, 'base64url')).toEqual(Buffer.from(payload, 'base64url'));
    expect(await verdict(signed(header, payload))).toBe('ok');
    expect(await verdict(signed(header, twin))).toBe('forbidden');
  });

  test('longer than a grant may be', async () => {
    const allowing = (entries: number) => ({
      ...good,
      allow: Array.from({ length: entries }, () => ({
        bucket: 'data',
        prefix: `${'a'.repeat(800)}/`,
        operations: ['object.get'],
      })),
    });
    expect(await verdict(await issuer.sign(allowing(2)))).toBe('ok');
    expect(await verdict(await issuer.sign(allowing(5)))).toBe('forbidden');
  });
});

describe('a text may be a grant', () => {
  const last = `${'s'.repeat(85)}A`;
  const ofLength = (length: number) => `h.${'p'.repeat(length - 3 - last.length)}.${last}`;

  test('if it is one, or has its form and no more than its length', async () => {
    expect(isGrantShaped(await issuer.sign(good))).toBe(true);
    expect(isGrantShaped(ofLength(GRANT_LENGTH))).toBe(true);
    expect(isGrantShaped(ofLength(GRANT_LENGTH + 1))).toBe(false);
  });

  test.each([
    ['empty', ''],
    ['a word', 'x'],
    ['with something in front', ` h.p.${last}`],
    ['with a part in front', `x.h.p.${last}`],
    ['with something behind', `h.p.${last}\n`],
    ['with a part behind', `h.p.${last}.x`],
    ['without a header', `.p.${last}`],
    ['without claims', `h..${last}`],
    ['with a header that is too long', `${'h'.repeat(257)}.p.${last}`],
    ['with spare bits in its signature', `h.p.${'s'.repeat(85)}B`],
  ])('but not if it is %s', (_what, text) => {
    expect(isGrantShaped(text)).toBe(false);
  });
});

describe('a signed grant for something else is refused', () => {
  test.each<[string, Partial<Record<keyof GrantClaims, unknown>>]>([
    ['another Capsule', { capsule: 'other' }],
    ['another Assistant', { app: 'other' }],
    ['another Space', { space: 'other' }],
    ['another principal, as of an earlier incarnation', { cnf: randomBytes(32).toString('base64url') }],
    ['another audience', { aud: 'platform.postgres/v1' }],
    ['several audiences', { aud: ['platform.objectstore/v1'] }],
    ['another issuer', { iss: 'platform.space/console' }],
    ['an operation that does not exist', { allow: [{ bucket: 'data', prefix: '', operations: ['*'] }] }],
    ['a bucket that does not exist', { allow: [{ bucket: '*', prefix: '', operations: ['object.get'] }] }],
    ['half a segment', { allow: [{ bucket: 'data', prefix: 'a/b', operations: ['object.get'] }] }],
    ['nothing', { allow: [] }],
    ['no generation', { gen: 0 }],
    ['a reference of another kind', { ref: 'managed' }],
    ['longer than a grant may last', { exp: good.iat + 901 }],
    ['no time', { exp: good.iat }],
    ['for ever', { exp: undefined }],
  ])('%s', async (_what, change) => {
    expect(await verdict(await issuer.sign({ ...good, ...change }))).toBe('forbidden');
  });

  test('with an unknown claim', async () => {
    expect(await verdict(await issuer.sign({ ...good, sub: 'x' }))).toBe('forbidden');
  });

  test('presented by another Assistant', async () => {
    const text = await issuer.sign(good);
    for (const change of [
      { capsule: 'other' },
      { app: 'other' },
      { digest: randomBytes(32) },
      { space: 'other' },
    ])
      expect(await verdict(text, { bearer: { ...bearer, ...change } })).toBe('forbidden');
  });
});

describe('the validity of a grant', () => {
  test.each([
    [-31, 'forbidden'],
    [-30, 'ok'],
    [0, 'ok'],
    [629, 'ok'],
    [630, 'stale_grant'],
    [100_000, 'stale_grant'],
  ])('at %i s after it was signed: %s', async (seconds, expected) => {
    expect(await verdict(await issuer.sign(good), { now: after(seconds) })).toBe(expected);
  });

  test('is not revealed to a stranger by an expired one', async () => {
    const text = await issuer.sign(good);
    const other = { ...bearer, digest: randomBytes(32) };
    expect(await verdict(text, { bearer: other, now: after(100_000) })).toBe('forbidden');
  });
});

describe('keys', () => {
  test('old and new ones are both valid during an exchange, and only then', async () => {
    const [before, both] = [await issuer.sign(good), parseGrantKeys(issuer.keySet(stranger))];
    for (const text of [before, await stranger.sign(good)])
      await expect(verifyGrant(text, { keys: both, bearer, now: NOW })).resolves.toEqual(good);
    const next = parseGrantKeys(stranger.keySet());
    await expect(verifyGrant(before, { keys: next, bearer, now: NOW })).rejects.toMatchObject({
      code: 'forbidden',
    });
  });

  test.each([
    ['no JSON', '{'],
    ['no keys', '{"keys":[]}'],
    ['the kid of another key', issuer.keySet().replace(issuer.kid, stranger.kid)],
    [
      'a private key',
      JSON.stringify({ keys: [{ ...issuer.privateKey.export({ format: 'jwk' }), kid: issuer.kid }] }),
    ],
    ['a shared secret', '{"keys":[{"kty":"oct","k":"AAAA","kid":"x"}]}'],
  ])('a file with %s is refused, and not shown', (_what, text) => {
    expect(() => parseGrantKeys(text)).toThrow(/^GRANT_KEYS_FILE: not a JWKS of public Ed25519 keys/);
  });
});

describe('what is allowed', () => {
  const allow: GrantClaims['allow'] = [
    { bucket: 'data', prefix: 'a/b/', operations: ['object.get', 'object.list'] },
    { bucket: 'shared', prefix: '', operations: ['object.put'] },
  ];
  test.each([
    ['object.get', 'data', 'a/b/c', true],
    ['object.list', 'data', 'a/b/', true],
    ['object.get', 'data', 'a/bc', false],
    ['object.list', 'data', 'a/b', false],
    ['object.list', 'data', '', false],
    ['object.get', 'data', 'A/b/c', false],
    ['object.put', 'data', 'a/b/c', false],
    ['object.get', 'shared', 'a/b/c', false],
    ['object.put', 'shared', 'x', true],
  ] as const)('%s of %s %s: %s', (operation, bucket, path, allowed) => {
    const ask = () => demand({ allow }, { operation, bucket, path });
    if (allowed) expect(ask).not.toThrow();
    else expect(ask).toThrow('credential refused');
  });
});
