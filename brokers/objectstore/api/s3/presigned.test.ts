import { SignatureV4 } from '@smithy/signature-v4';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../../testing/assistant.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { Sha256 } from '../../testing/sha256.ts';
import { encode } from '../../upstream/sigv4.ts';
import { keysOf, type S3Keys } from './testing/clients.ts';
import { type Presigning, presign, type Said, send, sendSigned } from './testing/signed.ts';

/** URLs with a signature, with which anybody may do one operation on one object for a limited time. */

const HOUR = 3_600;
const MINUTES = 60_000;

let fixture: Fixture;
let base: string;
let me: Assistant;
let keys: S3Keys;

beforeAll(async () => {
  fixture = await openFixture({
    environment: { OBJECT_REQUESTS_PER_SECOND: '1000000', REFUSALS_BURST: '1000000' },
  });
  base = fixture.broker.dataUrl;
  me = await newAssistant(fixture.broker);
  keys = await keysOf(me);
  await me.put('there', 'content');
});
afterAll(() => fixture?.close());

const url = (what: Partial<Presigning> = {}) =>
  presign(base, keys, { method: 'GET', path: '/data/there', ...what });
const ago = (minutes: number) => new Date(Date.now() - minutes * MINUTES);
const GENERIC = /^The request is not signed with the current keys/;

describe('a presigned URL', () => {
  test('reads, describes, stores and deletes one object', async () => {
    expect((await send(url())).text).toBe('content');
    expect((await send(url({ method: 'HEAD' }), { method: 'HEAD' })).headers['content-length']).toBe('7');
    const path = '/data/by/url';
    expect(await send(url({ method: 'PUT', path }), { method: 'PUT', body: 'put' })).toMatchObject({
      status: 200,
    });
    expect((await me.get('by/url')).text).toBe('put');
    expect((await send(url({ path }), { headers: { range: 'bytes=1-1' } })).text).toBe('u');
    expect((await send(url({ method: 'DELETE', path }), { method: 'DELETE' })).status).toBe(204);
    expect((await me.get('by/url')).status).toBe(404);
  });

  test('stores a part of an upload', async () => {
    const { json } = await me.post('/v1/uploads/data', { key: 'parts' });
    const query = { uploadId: json.upload_id, partNumber: '1' };
    const part = await send(url({ method: 'PUT', path: '/data/parts', query }), { method: 'PUT', body: 'x' });
    expect(part.status).toBe(200);
    const parts = [{ number: 1, etag: part.headers['etag'] }];
    expect((await me.post(`/v1/uploads/data/${json.upload_id}/complete`, { parts })).status).toBe(200);
    expect((await me.get('parts')).text).toBe('x');
  });

  test("is what the AWS SDK's own signer makes", async () => {
    const signer = new SignatureV4({
      service: 's3',
      region: 'eu-central-1',
      uriEscapePath: false,
      credentials: { accessKeyId: keys.AccessKeyId, secretAccessKey: keys.SecretAccessKey },
      sha256: Sha256,
    });
    const { hostname, port, host } = new URL(base);
    const read = {
      method: 'GET',
      protocol: 'http:',
      hostname,
      port: Number(port),
      path: '/data/there',
      headers: { host, 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD', 'x-amz-checksum-mode': 'ENABLED' },
      query: { 'x-id': 'GetObject', 'response-content-type': 'text/html; charset="a+b c"' },
    };
    const { query = {} } = await signer.presign(read, { expiresIn: 60 });
    const text = Object.entries(query).map(([name, value]) => `${encode(name)}=${encode(String(value))}`);
    expect(query).toMatchObject({ 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' });
    const answer = await send(`${base}/data/there?${text.join('&')}`);
    expect([answer.text, answer.headers['content-type']]).toEqual(['content', 'text/html; charset="a+b c"']);
  });

  test('of another method, object or header value is refused', async () => {
    expect((await send(url(), { method: 'HEAD' })).status).toBe(403);
    expect((await send(url(), { method: 'DELETE' })).status).toBe(403);
    expect((await send(url().replace('/there', '/theirs'))).status).toBe(403);
    const typed = url({ method: 'PUT', path: '/data/typed', headers: { 'content-type': 'text/plain' } });
    const put = (type: string) =>
      send(typed, { method: 'PUT', headers: { 'content-type': type }, body: 'x' });
    expect((await put('text/html')).status).toBe(403);
    expect((await put('text/plain')).status).toBe(200);
    expect((await me.get('there')).text).toBe('content');
  });

  test("does not reach another Assistant's objects", async () => {
    const other = await newAssistant(fixture.broker);
    await other.put('theirs', 'secret');
    expect((await send(url({ path: '/data/theirs' }))).status).toBe(404);
    const forged = presign(
      base,
      { ...keys, AccessKeyId: (await keysOf(other)).AccessKeyId },
      {
        method: 'GET',
        path: '/data/theirs',
      },
    );
    const { status, text } = await send(forged);
    expect([status, text.includes('secret')]).toEqual([403, false]);
  });

  test('expires, with an error that says so', async () => {
    expect((await send(url({ at: ago(10), expires: 660 }))).status).toBe(200);
    const late = await send(url({ at: ago(2), expires: 60 }));
    expect([late.status, late.code, late.message]).toEqual([403, 'AccessDenied', 'Request has expired']);
    expect((await send(url({ at: ago(30), expires: HOUR }))).status).toBe(200);
  });

  test('may not be from the future, except for a difference of clocks', async () => {
    expect((await send(url({ at: ago(-14) }))).status).toBe(200);
    expect(await send(url({ at: ago(-16) }))).toMatchObject({ status: 403, code: 'RequestTimeTooSkewed' });
  });

  test('may not be valid for longer than the Space allows', async () => {
    expect(await send(url({ expires: HOUR + 1 }))).toMatchObject({
      status: 400,
      code: 'AuthorizationQueryParametersError',
      message: expect.stringContaining('3600 seconds'),
    });
    const patient = await fixture.replica({ environment: { PRESIGNED_URL_SECONDS: '604800' } });
    try {
      const what = { method: 'GET', path: '/data/there' };
      expect((await send(presign(patient.dataUrl, keys, { ...what, expires: 604_800 }))).status).toBe(200);
      expect((await send(presign(patient.dataUrl, keys, { ...what, expires: 604_801 }))).status).toBe(400);
    } finally {
      await patient.stop();
    }
  });

  test.each(['0', '-1', '01', '1.5', '1e3', '', '60 ', 'x', '99999999999'])(
    'with an X-Amz-Expires of %j is refused',
    async (expires) => {
      const { status, message } = await send(url({ query: { 'X-Amz-Expires': expires } }));
      expect([status, message]).toEqual([403, expect.stringMatching(GENERIC)]);
    },
  );

  test('reports the expiry only to a caller with the key', async () => {
    for (const what of [{ at: ago(120) }, { at: ago(-60) }, { expires: 999_999 }]) {
      const good = url(what);
      const bad = good.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
      const { status, code, message } = await send(bad);
      expect([status, code, message]).toEqual([403, 'AccessDenied', expect.stringMatching(GENERIC)]);
    }
  });

  test('ends at once with the principal, by drop and by rotation', async () => {
    const { broker } = fixture;
    const capsule = await broker.capsule('leaving');
    const one = assistant(base, await broker.workload(capsule, 'leaving', 'app'));
    await one.put('there', 'content');
    const first = presign(base, await keysOf(one), { method: 'GET', path: '/data/there' });
    expect((await send(first)).text).toBe('content');
    const again = assistant(base, await broker.workload(capsule, 'leaving', 'app'));
    const retired = await send(first);
    expect([retired.status, retired.message]).toEqual([403, expect.stringMatching(GENERIC)]);
    const second = presign(base, await keysOf(again), { method: 'GET', path: '/data/there' });
    expect((await send(second)).text).toBe('content');
    await capsule.drop('leaving', 'app');
    expect((await send(second)).status).toBe(403);
  });

  test('needs its host signed', async () => {
    expect(
      (
        await send(url({ headers: { range: 'bytes=0-0' }, leaving: ['host'] }), {
          headers: { range: 'bytes=0-0' },
        })
      ).status,
    ).toBe(403);
  });

  test('accepts no header of S3 that it did not sign', async () => {
    for (const [name, value] of [
      ['x-amz-meta-a', 'b'],
      ['x-amz-copy-source', '/data/there'],
      ['x-amz-acl', 'private'],
      ['x-amz-security-token', 'space'],
    ] as const) {
      const what = url({ method: 'PUT', path: '/data/new' });
      expect((await send(what, { method: 'PUT', headers: { [name]: value }, body: '' })).status).toBe(403);
    }
    expect((await me.get('new')).status).toBe(404);
  });

  test('uses a value signed in the query instead of a header', async () => {
    const path = '/data/described';
    const query = { 'X-Amz-Meta-Colour': 'blue', 'x-amz-acl': 'private', 'X-Amz-Security-Token': 'space' };
    expect((await send(url({ method: 'PUT', path, query }), { method: 'PUT', body: 'x' })).status).toBe(200);
    expect((await me.get('described')).headers.get('x-object-meta-colour')).toBe('blue');
    const open = { 'x-amz-acl': 'public-read' };
    expect(await send(url({ method: 'PUT', path, query: open }), { method: 'PUT', body: 'x' })).toMatchObject(
      {
        status: 501,
        message: expect.stringContaining('x-amz-acl'),
      },
    );
  });

  test('may sign metadata in headers, with names as SDKs write them', async () => {
    const headers = { 'x-amz-meta-source_file': 'a', 'x-amz-meta-v1.2': 'b' };
    const what = url({ method: 'PUT', path: '/data/named', headers });
    expect((await send(what, { method: 'PUT', headers, body: 'x' })).status).toBe(200);
    expect((await send(url({ path: '/data/named' }))).headers).toMatchObject(headers);
  });

  test('continues a read only in the object that it began with', async () => {
    const { etag } = (await me.put('resumed', 'AAAAAAAAAA')).json;
    await me.put('resumed', 'BBBBBBBBBB');
    const headers = { range: 'bytes=5-', 'if-range': etag };
    const { status, text } = await send(url({ path: '/data/resumed' }), { headers });
    expect([status, text]).toEqual([200, 'BBBBBBBBBB']);
  });

  test('holds a body to the hash that it signed', async () => {
    const query = {
      'X-Amz-Content-Sha256': 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    };
    const what = url({ method: 'PUT', path: '/data/hashed', query });
    expect(await send(what, { method: 'PUT', body: 'abd' })).toMatchObject({
      code: 'XAmzContentSHA256Mismatch',
    });
    expect((await send(what, { method: 'PUT', body: 'abc' })).status).toBe(200);
    const chunks = { 'X-Amz-Content-Sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' };
    const chunked = url({ method: 'PUT', path: '/data/hashed', query: chunks });
    expect((await send(chunked, { method: 'PUT', body: 'abc' })).status).toBe(403);
  });

  test('is only for one object: no list, no bucket, no copy, no bulk deletion', async () => {
    const only = { status: 501, message: expect.stringContaining('presigned') };
    expect(await send(url({ path: '/data' }))).toMatchObject(only);
    expect(await send(url({ path: '/data', query: { 'list-type': '2' } }))).toMatchObject(only);
    expect(await send(url({ path: '/' }))).toMatchObject(only);
    expect(
      await send(url({ method: 'POST', path: '/data', query: { delete: '' } }), {
        method: 'POST',
        body: '<x/>',
      }),
    ).toMatchObject(only);
    const copied = { 'x-amz-copy-source': '/data/there' };
    expect(
      await send(url({ method: 'PUT', path: '/data/copy', query: copied }), { method: 'PUT' }),
    ).toMatchObject(only);
    expect((await me.get('copy')).status).toBe(404);
  });

  test('together with an Authorization header is refused', async () => {
    const { 'content-length': _, ...headers } = {
      'content-length': '0',
      authorization: `Bearer ${me.token}`,
    };
    expect((await send(url(), { headers })).status).toBe(403);
    const said: Said = { method: 'GET', path: '/data/there', query: { 'X-Amz-Expires': '60' } };
    expect((await sendSigned(base, keys, said)).status).toBe(403);
  });

  test("counts among its Capsule's requests", async () => {
    const poor = await fixture.replica({
      environment: { OBJECT_REQUESTS_PER_SECOND: '1', OBJECT_REQUESTS_BURST: '2' },
    });
    try {
      const mine = presign(poor.dataUrl, keys, { method: 'GET', path: '/data/there' });
      const answers = [];
      for (let i = 0; i < 8; i += 1) answers.push((await send(mine)).code ?? 'ok');
      expect(answers).toContain('SlowDown');
      expect(answers[0]).toBe('ok');
    } finally {
      await poor.stop();
    }
  });

  test('shows nothing of the request in its refusals and in the log', async () => {
    const marked = url({ query: { 'response-content-type': 'tell-tale-1', tellTale2: 'x' } });
    const answers = [
      await send(marked),
      await send(marked.replace(/.$/, 'g')),
      await send(`${marked}&tellTale3=1`),
    ];
    for (const { status, text } of answers) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(text).not.toMatch(/tell-?tale|SPCK|X-Amz-Signature=/i);
    }
    const signature = /X-Amz-Signature=(\w+)/.exec(url())?.[1] ?? 'none';
    await send(url());
    expect(fixture.broker.log.join('')).not.toContain(signature);
    expect(fixture.broker.log.join('')).not.toMatch(/X-Amz-|tell-?tale/i);
  });
});

test('a query that was changed is refused', async () => {
  const good = url({ query: { 'response-content-type': 'text/plain' } });
  const mark = good.indexOf('?') + 1;
  const pairs = good.slice(mark).split('&');
  const letter = fc.constantFrom(...'0123456789abcdefABCDEFxyzXYZ-_.;:/%&=+ ');
  const index = fc.nat({ max: pairs.length - 1 });
  const tampered = fc.oneof(
    // One character is changed, missing or doubled.
    fc
      .tuple(fc.integer({ min: mark, max: good.length - 1 }), letter)
      .map(([i, to]) => good.slice(0, i) + to + good.slice(i + 1)),
    fc.integer({ min: mark, max: good.length - 1 }).map((i) => good.slice(0, i) + good.slice(i + 1)),
    // A parameter is missing, doubled, or in another case.
    index.map((i) => good.slice(0, mark) + pairs.filter((_, at) => at !== i).join('&')),
    index.map((i) => `${good}&${pairs[i]}`),
    index.map(
      (i) => good.slice(0, mark) + pairs.map((pair, at) => (at === i ? pair.toLowerCase() : pair)).join('&'),
    ),
    // Something is added, before or behind.
    fc
      .tuple(
        fc.constantFrom(
          'a=b',
          'versionId=1',
          'acl',
          'X-Amz-Expires=600',
          'X-Amz-SignedHeaders=',
          'x-amz-meta-a=b',
          '%58-Amz-Date=1',
          '&',
        ),
        fc.boolean(),
      )
      .map(([more, first]) =>
        first ? good.slice(0, mark) + more + '&' + good.slice(mark) : `${good}&${more}`,
      ),
  );
  await fc.assert(
    fc.asyncProperty(tampered, async (text) => {
      fc.pre(text !== good && !/[ ]/.test(text));
      const { status, text: said } = await send(text);
      // An escape may be spelt in two ways that mean the same.
      if (canonical(text) === canonical(good)) return;
      expect(status).toBe(403);
      expect(said).not.toContain('content');
    }),
    { numRuns: 400 },
  );
});

/** What a query means, parsed without our code. */
function canonical(text: string): string {
  try {
    const query = text.slice(text.indexOf('?') + 1);
    return query.split('&').map(decodeURIComponent).sort().join('&');
  } catch {
    return text;
  }
}
