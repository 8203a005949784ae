import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Assistant, newAssistant } from '../../testing/assistant.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { encodePath } from '../../upstream/sigv4.ts';
import { keysOf, type S3Keys } from './testing/clients.ts';
import { type Said, send, sendSigned } from './testing/signed.ts';

/** Requests signed in their Authorization header, as no SDK would sign them. */

let fixture: Fixture;
let base: string;
let me: Assistant;
let keys: S3Keys;

beforeAll(async () => {
  fixture = await openFixture();
  base = fixture.broker.dataUrl;
  me = await newAssistant(fixture.broker);
  keys = await keysOf(me);
  await me.put('there', 'content');
});
afterAll(() => fixture?.close());

const READ: Said = { method: 'GET', path: '/data/there' };
const sent = (more: Partial<Said> = {}) => sendSigned(base, keys, { ...READ, ...more });
const minutes = (count: number) => new Date(Date.now() + count * 60_000);

describe('a signature', () => {
  test('covers the host', async () => {
    expect((await sent()).text).toBe('content');
    expect(await sent({ leaving: ['host'] })).toMatchObject({ status: 403, code: 'AccessDenied' });
  });

  test('covers the time and the hash of the body', async () => {
    expect((await sent({ leaving: ['x-amz-date'] })).status).toBe(403);
    expect((await sent({ leaving: ['x-amz-content-sha256'] })).status).toBe(403);
  });

  test('covers every header of S3', async () => {
    expect((await sent({ unsigned: { 'x-amz-request-payer': 'requester' } })).status).toBe(403);
    expect((await sent({ headers: { 'x-amz-request-payer': 'requester' } })).status).toBe(200);
  });

  test('of another time is refused, with the reason only for a caller with the key', async () => {
    for (const off of [-16, 16])
      expect(await sent({ at: minutes(off) })).toMatchObject({
        status: 403,
        code: 'RequestTimeTooSkewed',
        message: expect.stringContaining('clock'),
      });
    for (const off of [-14, 14]) expect((await sent({ at: minutes(off) })).status).toBe(200);
  });

  test('of another time without a valid key is refused like any other', async () => {
    const wrong = { ...keys, SecretAccessKey: `${keys.SecretAccessKey.slice(1)}A` };
    const nobody = { ...keys, AccessKeyId: `SPCK${'0'.repeat(32)}` };
    const answers = await Promise.all([
      sendSigned(base, wrong, READ),
      sendSigned(base, wrong, { ...READ, at: minutes(60) }),
      sendSigned(base, nobody, { ...READ, at: minutes(-60) }),
      send(`${base}/data/there`),
    ]);
    const told = new Set(answers.map(({ status, code, message }) => `${status} ${code} ${message}`));
    expect(told.size).toBe(1);
  });
});

describe('a refusal', () => {
  test.each([
    ['x-amz-acl', 'public-read'],
    ['x-amz-server-side-encryption', 'aws:kms'],
    ['x-amz-server-side-encryption-customer-algorithm', 'AES256'],
    ['x-amz-storage-class', 'GLACIER'],
    ['x-amz-tagging', 'a=b'],
    ['x-amz-expected-bucket-owner', 'me'],
    ['x-amz-api-version', '2099-01-01'],
    ['x-amz-te', 'something'],
    ['x-amz-object-lock-mode', 'GOVERNANCE'],
  ])('of the header %s names it, and not its value %s', async (name, value) => {
    const answer = await sent({ method: 'PUT', path: '/data/new', body: 'x', headers: { [name]: value } });
    expect(answer).toMatchObject({
      status: 501,
      code: 'NotImplemented',
      message: expect.stringContaining(name),
    });
    expect(answer.message?.replaceAll(name, '')).not.toContain(value);
    expect((await me.get('new')).status).toBe(404);
  });

  test.each([
    ['x-amz-api-version', '2006-03-01'],
    ['x-amz-te', 'append-md5'],
    ['x-amz-server-side-encryption', 'AES256'],
    ['x-amz-server-side-encryption-bucket-key-enabled', 'false'],
    ['x-amz-acl', 'bucket-owner-full-control'],
    ['x-amz-acl', 'private'],
    ['x-amz-expected-bucket-owner', '111122223333'],
    ['x-amz-source-expected-bucket-owner', '111122223333'],
    ['x-amz-storage-class', 'STANDARD'],
    ['x-amz-request-payer', 'requester'],
    ['x-amz-tagging-directive', 'COPY'],
    ['x-amz-object-lock-legal-hold', 'OFF'],
    ['x-amz-bypass-governance-retention', 'false'],
  ])('does not affect %s: %s, which SDKs send', async (name, value) => {
    const answer = await sent({
      method: 'PUT',
      path: '/data/harmless',
      body: 'x',
      headers: { [name]: value },
    });
    expect(answer.status).toBe(200);
  });

  test('is of so many parameters and headers, and of more it is none', async () => {
    const query = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, '']));
    expect((await sent({ query: query(128) })).code).toBe('NotImplemented');
    expect(await sent({ query: query(129) })).toMatchObject({ status: 403, code: 'AccessDenied' });
    // Three are signed in any case.
    const headers = (count: number) =>
      Object.fromEntries(Array.from({ length: count - 3 }, (_, at) => [`h${at}`, '']));
    expect((await sent({ headers: headers(256) })).status).toBe(200);
    expect(await sent({ headers: headers(257) })).toMatchObject({ status: 403, code: 'AccessDenied' });
  });

  test('is of headers with some spaces in a row, each of which becomes one, and of more it is none', async () => {
    const spaced = (count: number) => ({ h: `a${'  a'.repeat(count)}` });
    expect((await sent({ headers: spaced(256) })).status).toBe(200);
    expect(await sent({ headers: spaced(257) })).toMatchObject({ status: 403, code: 'AccessDenied' });
  });

  test('is as long as a key and a list need, and of a longer one it is none', async () => {
    const longest = Array.from({ length: 3 }, () => '\u{1f600}'.repeat(60)).join('/');
    const path = (text: string) => `/data/${encodePath(text)}`;
    expect((await sent({ path: path(longest) })).code).toBe('NoSuchKey');
    expect((await sent({ path: path('ä'.repeat(600)) })).code).toBe('InvalidArgument');
    expect((await sent({ path: path('a'.repeat(4_096)) })).code).toBe('AccessDenied');
    const page = { prefix: longest, marker: longest, 'encoding-type': 'url' };
    expect((await sent({ path: '/data', query: page })).status).toBe(200);
    expect((await sent({ query: { 'response-expires': 'x'.repeat(12_000) } })).code).toBe('InvalidArgument');
    expect((await sent({ query: { 'response-expires': 'x'.repeat(12_288) } })).code).toBe('AccessDenied');
  });

  test('of an unknown part of S3 repeats nothing', async () => {
    const header = await sent({ headers: { 'x-amz-tell-tale': 'tell-tale' } });
    const parameter = await sent({ query: { telltale: 'tell-tale' } });
    const known = await sent({ query: { versionId: 'tell-tale' } });
    expect([header.code, parameter.code, known.code]).toEqual(Array(3).fill('NotImplemented'));
    expect(known.message).toContain('versionId');
    for (const { text } of [header, parameter, known]) expect(text).not.toMatch(/tell-?tale/);
  });

  test('of a full quota says how to free space', async () => {
    const poor = await newAssistant(fixture.broker, { quota: 10 });
    const answer = await sendSigned(base, await keysOf(poor), {
      method: 'PUT',
      path: '/data/large',
      body: 'x'.repeat(11),
    });
    expect(answer).toMatchObject({
      status: 403,
      code: 'QuotaExceeded',
      message: expect.stringContaining('Delete'),
    });
  });
});
