import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { callRaw, rawRequest } from '../testing/raw.ts';

const MIB = 1024 * 1024;
const STREAMS = 6;

let fixture: Fixture;
let base: string;
let mine: Assistant;

beforeAll(async () => {
  fixture = await openFixture({
    environment: { OBJECT_STREAMS: String(STREAMS) },
    // Longer than a busy machine stands still: who is not slow must not look so.
    pace: { tickMs: 50, recheckMs: 100, windowMs: 12_000, leastBytes: 1_024 },
  });
  base = fixture.broker.dataUrl;
  mine = await newAssistant(fixture.broker);
});
afterAll(() => fixture?.close());

/** Every file in the bucket that is an object of some Assistant. */
const objects = () =>
  readdirSync(join(fixture.s3.directory, 'space'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath.includes('/c/'))
    .map((entry) => entry.name);

const refused = (code: string) =>
  expect.stringMatching(`^{"error":{"code":"${code}"},"trace_id":"[0-9a-f]{32}"}$`);

/** Bytes that the tenant's Capsule is charged with and that no object explains. */
async function charged(): Promise<number> {
  await fixture.broker.round('quota');
  const [row] = await fixture.registry<{ n: number }>(
    'SELECT coalesce(sum(written + counted), 0)::int AS n FROM broker.object_usage',
  );
  return row?.n ?? 0;
}

describe('an invalid key', () => {
  test.each([
    '..',
    '.',
    'a/../b',
    'a/./b',
    '%2e%2e/b',
    'a/%2E%2E/b',
    'a//b',
    '/a',
    '/',
    'a//',
    'a/../',
    'a\\b',
    'a%5Cb',
    'a%2Fb',
    'a%2fb',
    'a%252Fb',
    'a%00b',
    'a%0Ab',
    'a%7F',
    '%C2%85',
    '%c0%ae%c0%ae/b',
    '%e0%80%af',
    '%ff',
    '%ed%a0%80',
    'a%',
    'a%2',
    'a%zz',
    'a"b',
    'a{b}',
    'a|b',
    'a^b',
    'x'.repeat(901),
    '%C3%A4'.repeat(450) + 'x',
  ])('%s is refused on every route, and nothing is stored', async (key) => {
    for (const method of ['GET', 'HEAD', 'DELETE', 'PUT']) {
      const body = method === 'PUT' ? 'x' : '';
      const headers = method === 'PUT' ? ['content-length: 1'] : [];
      const { status, text } = await rawRequest(
        base,
        mine.token,
        `${method} /v1/objects/data/${key}`,
        headers,
        body,
      );
      expect(status).toBe(400);
      if (method !== 'HEAD') expect(text).toEqual(refused('invalid_request'));
    }
    expect(objects()).toEqual([]);
  });

  test.each(['..', 'a//b', 'a%2Fb', 'a\\b', 'a\0b', 'a\ud800', 'x'.repeat(901), '', '/', 'a//', '/a'])(
    '%j is refused in a body',
    async (key) => {
      const from = await mine.post('/v1/copies/data', { from: key, to: 'to' });
      const to = await mine.post('/v1/copies/data', { from: 'from', to: key });
      const many = await mine.post('/v1/deletions/data', { keys: ['fine', key] });
      const upload = await mine.post('/v1/uploads/data', { key });
      for (const answer of [from, to, many, upload]) expect(answer.text).toEqual(refused('invalid_request'));
    },
  );
});

test('a key that the S3 server does not accept is refused, and not reported as a failure', async () => {
  const key = `a/${'x'.repeat(256)}`;
  await mine.put('a/there', 'x');
  for (const method of ['GET', 'HEAD', 'DELETE'])
    expect((await mine.call(method, `/v1/objects/data/${key}`)).status).toBe(400);
  expect((await mine.post('/v1/copies/data', { from: key, to: 'to' })).text).toEqual(
    refused('invalid_request'),
  );
  const { json } = await mine.post('/v1/deletions/data', { keys: [key, 'a/there'] });
  expect([json.deleted, json.failed]).toEqual([['a/there'], [key]]);
  expect(objects()).toEqual([]);
});

describe('a contradictory request', () => {
  test.each([
    [['content-length: 1', 'content-length: 2']],
    [['content-length: 1', 'transfer-encoding: chunked']],
    [['content-length: 1', 'content-type: a/b', 'content-type: c/d']],
    [['content-length: 1', 'if-none-match: *', 'If-None-Match: *']],
    [['content-length: 1', 'x-amz-acl: public-read']],
    [['content-length: 1', 'X-Amz-Copy-Source: /space/c/x']],
    [['content-length: 1', 'x-amz-meta-a: b']],
    [['content-length: 1', 'content-encoding: aws-chunked']],
    [['content-length: 1', 'if-none-match: "a"']],
    [['content-length: 1', 'if-match: \u0084']],
    [['content-length: +1']],
    [['content-length: 0x1']],
    [['content-length: 1', 'x-object-meta-a~b: c']],
    [['content-length: 1', `x-object-meta-a: ${'x'.repeat(2_049)}`]],
    [['content-length: 1', 'x-object-meta-a: \u00e4']],
  ])('%j is refused', async (headers) => {
    const { status, text } = await rawRequest(base, mine.token, 'PUT /v1/objects/data/two', headers, 'x');
    expect([status, text]).toEqual([400, refused('invalid_request')]);
    expect(objects()).toEqual([]);
  });

  test.each([
    '?prefix=a&prefix=b',
    '?acl',
    '?delete',
    '?versions',
    '?prefix=a&delete',
    '?prefix=a&%70refix=b',
    '?prefix=a+b',
    '?prefix=%2e%2e%2f',
    '?prefix=..%2F',
    '?prefix=/',
    '?delimiter=a',
    '?limit=0',
    '?limit=1001',
    '?limit=01',
    '?limit=1e2',
    '?cursor=',
    '?prefix=%ff',
    '?',
  ])('a list with %s is refused', async (query) => {
    const { status, text } = await rawRequest(base, mine.token, `GET /v1/objects/data${query}`);
    expect([status, text]).toEqual([400, refused('invalid_request')]);
  });

  test.each([
    [1_000, 200],
    [1_001, 400],
  ])('a deletion of %i objects at once is answered %i', async (count, expected) => {
    const body = JSON.stringify({ keys: Array.from({ length: count }, (_, i) => `none/${i}`) });
    const headers = ['content-type: application/json', `content-length: ${body.length}`];
    const { status } = await rawRequest(base, mine.token, 'POST /v1/deletions/data', headers, body);
    expect(status).toBe(expected);
  });

  test.each([
    'GET /v1/objects/data/a?versionId=x',
    'PUT /v1/objects/data/a?acl',
    'DELETE /v1/objects/data/a?uploadId=x',
  ])('%s is refused', async (line) => {
    const headers = line.startsWith('PUT') ? ['content-length: 0'] : [];
    expect((await rawRequest(base, mine.token, line, headers)).status).toBe(400);
  });

  test('a condition that is not a string is refused if nothing else is wrong', async () => {
    for (const method of ['GET', 'HEAD', 'DELETE']) {
      const line = `${method} /v1/objects/data/a`;
      expect((await rawRequest(base, mine.token, line, ['if-match: \u0084'])).status).toBe(400);
    }
  });

  test.each(['GET', 'DELETE'])('a %s with a body is refused', async (method) => {
    const line = `${method} /v1/objects/data/a`;
    expect((await rawRequest(base, mine.token, line, ['content-length: 1'], 'x')).status).toBe(400);
    const chunked = await rawRequest(base, mine.token, line, ['transfer-encoding: chunked'], '0\r\n\r\n');
    expect(chunked.status).toBe(400);
  });

  test.each([
    ['POST /v1/objects/data/a', 405],
    ['PATCH /v1/objects/data/a', 405],
    ['POST /v1/objects/data', 405],
    ['GET /v1/objects', 404],
    ['GET /v1/objects/other/a', 404],
    ['GET /v1/objects/%64ata/a', 404],
    ['GET /v1/../v1/objects/data/a', 404],
    ['GET /v1/uploads/data/none', 404],
    ['PUT /v1/uploads/data/none/1', 404],
  ])('%s is answered with %d', async (line, status) => {
    const headers = /^(PUT|POST|PATCH)/.test(line) ? ['content-length: 0'] : [];
    expect((await rawRequest(base, mine.token, line, headers)).status).toBe(status);
  });
});

describe('a body that differs from its headers', () => {
  test('needs a length', async () => {
    const headers = ['transfer-encoding: chunked'];
    const answer = await rawRequest(
      base,
      mine.token,
      'PUT /v1/objects/data/a',
      headers,
      '1\r\nx\r\n0\r\n\r\n',
    );
    expect(answer).toEqual({ status: 411, text: refused('length_required') });
  });

  test('needs an accepted length, before a byte of it is read', async () => {
    const headers = [`content-length: ${5 * 1024 * MIB + 1}`];
    const answer = await rawRequest(base, mine.token, 'PUT /v1/objects/data/a', headers, 'x');
    expect(answer).toEqual({ status: 413, text: refused('too_large') });
  });

  test('gets 100 Continue only once it is admitted', async () => {
    const headers = (token: string) =>
      `PUT /v1/objects/data/waits HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n`;
    const stranger = await callRaw(base);
    stranger.send(headers('none'));
    expect(await stranger.received((text) => text.includes('}'))).toMatch(/^HTTP\/1.1 403 /);
    stranger.socket.destroy();
    const caller = await callRaw(base);
    caller.send(headers(mine.token));
    await caller.received((text) => text.startsWith('HTTP/1.1 100 Continue\r\n\r\n'));
    caller.send('hello');
    expect(await caller.received((text) => text.includes('}'))).toMatch(/HTTP\/1.1 200 OK/);
    caller.socket.destroy();
    expect((await mine.get('waits')).text).toBe('hello');
    await mine.call('DELETE', '/v1/objects/data/waits');
  });

  test('stores nothing if it ends early, and returns what was reserved', async () => {
    const before = await charged();
    const caller = await callRaw(base);
    caller.send(
      `PUT /v1/objects/data/early HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-length: ${4 * MIB}\r\n\r\n`,
    );
    caller.send(Buffer.alloc(2 * MIB));
    await eventually(() => caller.socket.writableLength === 0, { what: 'the first half to be read' });
    caller.socket.destroy();
    await eventually(
      () => fixture.broker.log.some((line) => line.includes('"object.put"') && line.includes('cut_short')),
      { what: 'the end of the request' },
    );
    expect((await mine.get('early')).status).toBe(404);
    expect(objects()).toEqual([]);
    expect(await charged()).toBe(before);
  });

  test('ends at its announced length: what follows is never part of it', async () => {
    const caller = await callRaw(base);
    caller.send(
      `PUT /v1/objects/data/long HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-length: 2\r\n\r\nabcdef\r\n\r\n`,
    );
    const text = await caller.received();
    expect(text.match(/HTTP\/1.1 \d+/g)?.at(-1)).toBe('HTTP/1.1 400');
    // Whether the first was done before the parser gave up on the second is chance.
    const { status, text: stored } = await mine.get('long');
    expect(status === 404 || stored === 'ab').toBe(true);
    await mine.call('DELETE', '/v1/objects/data/long');
  });
});

describe('a slow caller', () => {
  test('with a body is disconnected', async () => {
    const caller = await callRaw(base);
    caller.send(
      `PUT /v1/objects/data/slow HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-length: 100\r\n\r\nx`,
    );
    expect(await caller.received((text) => text.includes('}'))).toMatch(/^HTTP\/1.1 400 /);
    expect((await mine.get('slow')).status).toBe(404);
  });

  test.each([
    ['a large document', 2 ** 20],
    ['a small document', 100],
  ])('with %s is disconnected', async (_, length) => {
    const caller = await callRaw(base);
    caller.send(
      `POST /v1/deletions/data HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n{`,
    );
    expect(await caller.received((text) => text.includes('}'))).toMatch(/^HTTP\/1.1 400 /);
    await caller.received();
  });

  test('with reading is disconnected, and the upstream with it', async () => {
    await mine.put('wide', Buffer.alloc(48 * MIB));
    const caller = await callRaw(base);
    caller.socket.pause();
    caller.send(
      `GET /v1/objects/data/wide HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\n\r\n`,
    );
    const cut = () =>
      fixture.broker.log.some((line) => line.includes('"object.get"') && line.includes('cut_short'));
    await eventually(cut, { what: 'the stalled reader to be cut' });
    caller.socket.destroy();
  });

  test('may be slow while it makes progress', async () => {
    const caller = await callRaw(base);
    let received = 0;
    caller.socket.on('data', (chunk) => {
      received += chunk.length;
      caller.socket.pause();
      setTimeout(() => caller.socket.resume(), 1);
    });
    caller.send(
      `GET /v1/objects/data/wide HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\nconnection: close\r\n\r\n`,
    );
    await new Promise((resolve) => caller.socket.once('close', resolve));
    expect(received).toBeGreaterThan(48 * MIB);
    await mine.call('DELETE', '/v1/objects/data/wide');
  });
});

test('a Capsule has a limited number of streams at once, and one more when one ends', async () => {
  const head = `PUT /v1/objects/data/stream HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n`;
  // Those who send nothing here are never ended for that.
  const patient = await fixture.replica({ environment: { OBJECT_STREAMS: String(STREAMS) } });
  const callers = await Promise.all(Array.from({ length: STREAMS }, () => callRaw(patient.dataUrl)));
  for (const caller of callers) {
    caller.send(head);
    await caller.received((text) => text.includes('100 Continue'));
  }
  const here = assistant(patient.dataUrl, mine.token);
  const one = await here.get('anything');
  expect([one.status, one.headers.get('retry-after')]).toEqual([429, '1']);
  const other = await newAssistant(patient);
  expect((await other.get('anything')).status).toBe(404);
  for (const caller of callers) caller.socket.destroy();
  await eventually(async () => (await here.get('anything')).status === 404, {
    what: 'a place among the streams',
  });
  await patient.stop();
});

test('a caller that disconnects before it was admitted keeps no slot', async () => {
  const headers = ['content-length: 2'];
  for (let i = 0; i < 2 * STREAMS; i += 1)
    await rawRequest(base, mine.token, 'PUT /v1/objects/data/gone', headers, 'x', { end: true });
  expect((await mine.get('gone')).status).toBe(404);
});

test('a principal that is retired during a stream stores nothing more', async () => {
  const capsule = await fixture.broker.capsule('middle');
  const one = assistant(base, await fixture.broker.workload(capsule, 'middle', 'app'));
  const caller = await callRaw(base);
  caller.send(
    `PUT /v1/objects/data/middle HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${one.token}\r\ncontent-length: ${100 * MIB}\r\n\r\n`,
  );
  const pump = setInterval(() => caller.send(Buffer.alloc(4_096)), 20);
  expect((await capsule.drop('middle', 'app')).status).toBe(200);
  expect(await caller.received((text) => text.includes('}'))).toMatch(/^HTTP\/1.1 403 /);
  clearInterval(pump);
  caller.socket.destroy();
  expect(objects()).toEqual([]);
});

test('the log has every request once, and no key, query or token', () => {
  const text = fixture.broker.log.join('');
  expect(text).not.toContain(mine.token);
  expect(text).not.toMatch(/spc_osw_|versionId|middle\/|\/v1\/objects/);
});

test('an unavailable upstream is reported without details', async () => {
  await fixture.s3.kill();
  const get = await mine.get('a');
  expect([get.status, get.json.error.code]).toEqual([502, 'upstream_failed']);
  const put = await mine.put('a', 'x');
  expect(put.text).toEqual(refused('upstream_failed'));
  await fixture.s3.start();
  expect((await mine.put('a', 'x')).status).toBe(200);
});

test('an Assistant that asks without end has so many lines of the log a second, and the others are counted', async () => {
  const noisy = await newAssistant(fixture.broker, { capsule: 'noisy' });
  const own = () =>
    fixture.broker.log.map((line) => JSON.parse(line)).filter(({ capsule }) => capsule === 'noisy');
  const leftOut = () => own().find(({ left_out }) => left_out !== undefined);
  let sent = 0;
  await eventually(
    async () => {
      await Promise.all(Array.from({ length: 10 }, () => noisy.get('absent')));
      sent += 10;
      return sent % 1_000 === 0 && leftOut();
    },
    { what: 'the number of those without a line' },
  );
  expect(leftOut()).toMatchObject({ event: 'request', app: 'app', msg: 'lines left out' });
  expect(
    own().filter(({ msg, operation }) => msg === 'request' && operation !== 'capsule.provision').length,
  ).toBeLessThan(sent);
});
