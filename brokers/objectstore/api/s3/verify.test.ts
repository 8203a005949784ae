import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  isPresigned,
  parseClaim,
  parsePresigned,
  type Untimely,
  type Verified,
  verify,
} from './signature.ts';
import { type Presigning, presign } from './testing/signed.ts';

/** How a signature is verified, with the clock of the test. */

const NOW = new Date('2026-11-22T12:00:00Z');
const KEYS = { AccessKeyId: `SPCK${'A'.repeat(32)}`, SecretAccessKey: 'secret-of-a-test' };
const BASE = 'http://127.0.0.1:8081';
const HOST = { host: '127.0.0.1:8081' };
const LONGEST = 3_600;

type Headers = Readonly<Record<string, string>>;

/** `good`, why it is refused although it is signed, or `nobody`. */
function judged(url: string, headers: Headers = HOST, method = 'GET'): 'good' | 'nobody' | Untimely {
  const mark = url.indexOf('?');
  const [path, query] = [url.slice(BASE.length, mark), url.slice(mark + 1)];
  const received = new Map(Object.entries(headers));
  const asked = isPresigned(query) ? parsePresigned(received, query) : undefined;
  if (asked === undefined) return 'nobody';
  const payload = asked.headers.get('x-amz-content-sha256') ?? '';
  const request = { method, path, query, headers: received, payload };
  return said(verify(request, asked.claim, [KEYS.SecretAccessKey], { now: NOW, longest: LONGEST }));
}

function said(verified: Verified | Untimely | undefined): 'good' | 'nobody' | Untimely {
  if (verified === undefined) return 'nobody';
  return typeof verified === 'string' ? verified : 'good';
}

const after = (seconds: number) => new Date(NOW.getTime() + seconds * 1_000);
const url = (more: Partial<Presigning> = {}) =>
  presign(BASE, KEYS, { method: 'GET', path: '/data/a', at: NOW, expires: 600, ...more });

describe('a presigned URL', () => {
  test.each<readonly [string, Partial<Presigning>, 'good' | Untimely]>([
    ['is good now', {}, 'good'],
    ['is good in its last second', { at: after(-600) }, 'good'],
    ['is over a second later', { at: after(-601) }, 'expired'],
    ['is good although the clock of its signer is a little ahead', { at: after(900) }, 'good'],
    ['is not of the future', { at: after(901) }, 'skewed'],
    ['may be good for the longest time', { expires: LONGEST }, 'good'],
    ['may not be good for longer', { expires: LONGEST + 1 }, 'too long'],
    ['may not have been good for longer', { expires: LONGEST + 1, at: after(-900_000) }, 'too long'],
  ])('%s', (_name, more, expected) => {
    expect(judged(url(more))).toBe(expected);
    expect(judged(`${url(more).slice(0, -1)}x`)).toBe('nobody');
    const flipped = url(more).replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    expect(judged(flipped)).toBe('nobody');
  });

  test('needs the host among what is signed', () => {
    expect(judged(url({ headers: { range: 'x' }, leaving: ['host'] }), { ...HOST, range: 'x' })).toBe(
      'nobody',
    );
  });

  test('needs the headers that it signed, as they were', () => {
    const signed = url({ headers: { 'content-type': 'a/b' } });
    expect(judged(signed, { ...HOST, 'content-type': 'a/b' })).toBe('good');
    expect(judged(signed, { ...HOST, 'content-type': 'a/c' })).toBe('nobody');
    expect(judged(url({ headers: { 'content-type': '' } }))).toBe('nobody');
    expect(judged(url(), { host: '127.0.0.1:8082' })).toBe('nobody');
  });

  test('takes no header of S3 beside what it signed, nor one that is in both places', () => {
    expect(judged(url(), { ...HOST, 'x-amz-acl': 'private' })).toBe('nobody');
    const query = { 'X-Amz-Acl': 'private' };
    expect(judged(url({ query }))).toBe('good');
    const both = url({ query, headers: { 'x-amz-acl': 'public-read' } });
    expect(judged(both, { ...HOST, 'x-amz-acl': 'public-read' })).toBe('nobody');
  });

  test('is of the day that its key is of', () => {
    expect(judged(url({ day: '20261121' }))).toBe('nobody');
    expect(judged(url({ day: '20261122' }))).toBe('good');
  });

  test('says each of its parameters once, in plain letters', () => {
    expect(judged(url({ again: { 'X-Amz-Expires': '600' } }))).toBe('nobody');
    expect(judged(url({ query: { 'x-ämz': 'a' } }))).toBe('nobody');
  });

  test.each([
    ['two of a parameter, both signed', (good: string) => good.replace('?', '?X-Amz-Expires=600&')],
    ['an escaped name', (good: string) => good.replace('X-Amz-Date', 'X%2DAmz-Date')],
    ['no algorithm of ours', (good: string) => good.replace('AWS4-HMAC-SHA256', 'AWS4-HMAC-SHA1')],
    ['a plus', (good: string) => `${good}&a=+`],
  ])('with %s is nobody’s', (_name, change) => {
    expect(judged(change(url()))).toBe('nobody');
  });

  test('has one algorithm, whatever it signs', () => {
    expect(judged(url({ query: { 'X-Amz-Algorithm': 'AWS4-HMAC-SHA1' } }))).toBe('nobody');
    expect(judged(url({ query: { 'X-Amz-Expires': '0' } }))).toBe('nobody');
    expect(judged(url({ query: { 'X-Amz-Expires': '1e3' } }))).toBe('nobody');
  });

  test('signs no chunks', () => {
    const query = { 'X-Amz-Content-Sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' };
    expect(judged(url({ query }))).toBe('nobody');
  });

  test('is the only signature of its request', () => {
    expect(judged(url(), { ...HOST, authorization: 'Bearer x' })).toBe('nobody');
  });

  test('is worth nothing when a byte of its query is another one', () => {
    const good = url({ query: { 'response-content-type': 'text/plain' } });
    const mark = good.indexOf('?') + 1;
    const meaning = (text: string) => {
      try {
        return text.slice(mark).split('&').map(decodeURIComponent).sort().join('&');
      } catch {
        return text;
      }
    };
    fc.assert(
      fc.property(
        fc.integer({ min: mark, max: good.length }),
        fc.nat({ max: 2 }),
        fc.stringMatching(/^[ -~]{0,3}$/),
        (at, gone, put) => {
          const changed = good.slice(0, at) + put + good.slice(at + gone);
          if (meaning(changed) === meaning(good)) return;
          expect(judged(changed)).toBe('nobody');
        },
      ),
      { numRuns: 5_000 },
    );
  });
});

test('a claim that is no claim is none', () => {
  const claim = (authorization: string) => parseClaim(new Map([['authorization', authorization]]));
  const scope = '20261122/us-east-1/s3/aws4_request';
  const rest = `SignedHeaders=host;x-amz-date, Signature=${'0'.repeat(64)}`;
  expect(claim(`AWS4-HMAC-SHA256 Credential=${KEYS.AccessKeyId}/${scope}, ${rest}`)).toBeDefined();
  for (const text of [
    '',
    `AWS4-HMAC-SHA1 Credential=${KEYS.AccessKeyId}/${scope}, ${rest}`,
    `AWS4-HMAC-SHA256 Credential=${KEYS.AccessKeyId}/20261122/us-east-1/ec2/aws4_request, ${rest}`,
    `AWS4-HMAC-SHA256 Credential=short/${scope}, ${rest}`,
    `AWS4-HMAC-SHA256 Credential=${KEYS.AccessKeyId}/${scope}, ${rest}0`,
    `AWS4-HMAC-SHA256 Credential=${KEYS.AccessKeyId}/${scope}, ${rest.toUpperCase()}`,
  ])
    expect(claim(text)).toBeUndefined();
});
