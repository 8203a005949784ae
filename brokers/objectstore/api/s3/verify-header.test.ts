import { describe, expect, test } from 'vitest';
import { ALGORITHM, amzDate, scopeText, signatureOf, signingKey } from '../../upstream/sigv4.ts';
import { isTooMuch, parseClaim, parsePresigned, verify } from './signature.ts';
import { presign } from './testing/signed.ts';

/** How a signature in the Authorization header is verified, with the clock of the test. */

const NOW = new Date('2026-11-22T12:00:00Z');
const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const KEYS = { AccessKeyId: `SPCK${'A'.repeat(32)}`, SecretAccessKey: 'secret-of-a-test' };
const SCOPE = { day: '20261122', region: 'us-east-1' };
const HOST = '127.0.0.1:8081';

interface Signing {
  /** What is sent. */
  readonly path?: string;
  readonly query?: string | undefined;
  readonly unsigned?: Readonly<Record<string, string>>;
  /** What is signed: the canonical path and query, and more headers, which are sent, too. */
  readonly signedPath?: string;
  readonly pairs?: readonly (readonly [string, string])[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly time?: string;
  /** Names of headers that are not sent at all. */
  readonly without?: readonly string[];
  /** Names that are listed once more. */
  readonly again?: readonly string[];
}

/** `good`, why it is refused although it is signed, or `nobody`. */
function judged({
  path = '/data/a',
  query,
  unsigned = {},
  signedPath = path,
  pairs = [],
  headers = {},
  time = amzDate(NOW),
  without = [],
  again = [],
}: Signing): string {
  const payload = 'UNSIGNED-PAYLOAD';
  const all = { host: HOST, 'x-amz-content-sha256': payload, 'x-amz-date': time, ...headers };
  const sent = Object.entries(all).filter(([name]) => !without.includes(name));
  const signable = {
    ...{ method: 'GET', path: signedPath, query: pairs, payload },
    headers: [...sent, ...sent.filter(([name]) => again.includes(name))],
  };
  const key = signingKey(KEYS.SecretAccessKey, SCOPE);
  const { signature, signedHeaders } = signatureOf(signable, key, time, scopeText(SCOPE));
  const credential = `${KEYS.AccessKeyId}/${scopeText(SCOPE)}`;
  const authorization = `${ALGORITHM} Credential=${credential}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
  const received = new Map(Object.entries({ ...Object.fromEntries(sent), ...unsigned, authorization }));
  const request = { method: 'GET', path, query, headers: received, payload };
  const claim = parseClaim(received);
  if (claim === undefined) return 'no claim';
  const said = verify(request, claim, [KEYS.SecretAccessKey], { now: NOW, longest: 3_600 }) ?? 'nobody';
  return typeof said === 'string' ? said : 'good';
}

describe('what anybody signs', () => {
  const isSignable = (path: string, query?: string, headers: Readonly<Record<string, string>> = {}) =>
    !isTooMuch(path, query, new Map(Object.entries({ host: HOST, ...headers })));

  test.each<[string, number, (count: number) => boolean]>([
    ['characters in its path', 4_096, (count) => isSignable('/'.padEnd(count, 'a'))],
    ['characters in its query', 12_288, (count) => isSignable('/', 'a='.padEnd(count, 'a'))],
    ['parameters', 128, (count) => isSignable('/', Array.from({ length: count }, () => 'a').join('&'))],
    ['pairs of spaces in a header', 256, (count) => isSignable('/', '', { h: `a${'  a'.repeat(count)}` })],
    [
      'pairs of spaces in two headers',
      256,
      (count) => isSignable('/', '', { a: `${'  a'.repeat(count - 9)}`, b: `${'  b'.repeat(9)}` }),
    ],
  ])('has so many %s: %i', (_, most, isGood) => {
    expect([10, most, most + 1].map(isGood)).toEqual([true, true, false]);
  });
});

describe('a request that is signed in its header', () => {
  test.each([
    [0, 'good'],
    [-900, 'good'],
    [-901, 'skewed'],
    [900, 'good'],
    [901, 'skewed'],
  ])('signed %i s from now is %s', (seconds, expected) => {
    expect(judged({ time: amzDate(after(seconds)) })).toBe(expected);
  });

  test.each([
    ['a day alone', '20261122'],
    ['a time behind something else', '20261122-20261122T120000Z'],
    ['a time before something else', '20261122T120000Z0'],
    ['another form', '20261122T12:00:00Z'],
  ])('with %s as its time is refused', (_, time) => {
    expect(judged({ time })).toBe('nobody');
  });

  test('must have the hash of its body, and sign that, the host, and every header of S3, each once', () => {
    for (const name of ['host', 'x-amz-content-sha256']) {
      expect(judged({ without: [name] }), name).toBe('nobody');
      expect(judged({ again: [name] }), name).toBe('no claim');
    }
    expect(judged({ without: ['host'], unsigned: { host: HOST } })).toBe('nobody');
    expect(judged({ headers: { 'x-amz-acl': 'private' } })).toBe('good');
    expect(judged({ unsigned: { 'x-amz-acl': 'private' } })).toBe('nobody');
    expect(judged({ unsigned: { 'user-agent': 'a proxy' } })).toBe('good');
  });

  test('may have no query, or an empty one', () => {
    expect(judged({ query: undefined })).toBe('good');
    expect(judged({ query: '' })).toBe('good');
    expect(judged({ query: 'a=1' })).toBe('nobody');
  });

  test('may encode path and query in any way, since their canonical form is signed', () => {
    const signedPath = '/data/a%28b%29';
    for (const path of ['/data/a(b)', '/data/%61%28b%29']) expect(judged({ path, signedPath })).toBe('good');
    const pairs = [['prefix', 'a%28b%29']] as const;
    for (const query of ['prefix=a(b)', 'prefix=%61%28b%29', '%70refix=a(b)'])
      expect(judged({ query, pairs })).toBe('good');
    expect(judged({ query: 'prefix=a(c)', pairs })).toBe('nobody');
  });

  test('signs undecodable text as it is sent', () => {
    expect(judged({ path: '/data/a%2fb' })).toBe('good');
    expect(judged({ query: 'prefix=a+b', pairs: [['prefix', 'a+b']] })).toBe('good');
  });

  test('signs all of its query, also the parameters of a presigned URL', () => {
    const query = 'X-Amz-Signature=0';
    expect(judged({ query })).toBe('nobody');
    expect(judged({ query, pairs: [['X-Amz-Signature', '0']] })).toBe('good');
  });
});

describe('a claim', () => {
  const scope = scopeText(SCOPE);
  const signature = '0'.repeat(64);
  const claim = (credential: string, before = '', names = 'host') =>
    parseClaim(
      new Map([
        [
          'authorization',
          `${before}${ALGORITHM} Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
        ],
      ]),
    );

  test('contains key, day, region and signed headers', () => {
    expect(claim(`${KEYS.AccessKeyId}/${scope}`, '', 'host;x-amz-date')).toEqual({
      ...{ accessKeyId: KEYS.AccessKeyId, scope: SCOPE, time: '', signature, expires: undefined },
      signedHeaders: ['host', 'x-amz-date'],
    });
  });

  test('is the whole header, and its credential is complete', () => {
    expect(claim(`${KEYS.AccessKeyId}/${scope}`, 'Bearer ')).toBeUndefined();
    expect(claim(`-${KEYS.AccessKeyId}/${scope}`)).toBeUndefined();
    expect(claim(`${KEYS.AccessKeyId}/${scope}/more`)).toBeUndefined();
  });

  test('names no header twice, whose value would be signed as often', () => {
    expect(claim(`${KEYS.AccessKeyId}/${scope}`, '', 'host;x;x')).toBeUndefined();
  });

  test('names so many headers, and no more', () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => `x${at}`).join(';');
    expect(claim(`${KEYS.AccessKeyId}/${scope}`, '', names(256))?.signedHeaders).toHaveLength(256);
    expect(claim(`${KEYS.AccessKeyId}/${scope}`, '', names(257))).toBeUndefined();
  });
});

describe('of a presigned URL', () => {
  const BASE = `http://${HOST}`;
  const received = new Map([['host', HOST]]);
  const parsed = (query: Readonly<Record<string, string>>, more = '') => {
    const url = presign(BASE, KEYS, { method: 'GET', path: '/data/a', at: NOW, query });
    return parsePresigned(received, url.slice(url.indexOf('?') + 1) + more);
  };

  test('parameters that stand for headers of S3 become these, and others stay unchanged', () => {
    const asked = parsed({ 'X-Amz-Acl': 'private', prefix: 'a/(b)', 'not-x-amz-acl': 'x' });
    expect(Object.fromEntries(asked!.headers)).toEqual({
      ...{ host: HOST, 'x-amz-acl': 'private', 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' },
    });
    expect(asked?.query).toBe('prefix=a%2F%28b%29&not-x-amz-acl=x');
  });

  test('a value that two parsers decode differently is refused', () => {
    expect(parsed({}, '&a=b')).toBeDefined();
    expect(parsed({}, '&a=b+c')).toBeUndefined();
  });

  test.each([
    ['none', ''],
    ['in capitals', 'Host'],
    ['with something in front', ' host'],
    ['with something behind', 'host '],
    ['too many', 'h'.repeat(4_097)],
    ['one twice', 'host;x;x'],
  ])('the names of signed headers are checked: %s', (_, names) => {
    expect(parsed({ 'X-Amz-SignedHeaders': 'host' })).toBeDefined();
    expect(parsed({ 'X-Amz-SignedHeaders': names })).toBeUndefined();
  });
});
