import { createHash, randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

let fixture: Fixture;
let mine: Assistant;
let neighbour: Assistant;
let stranger: Assistant;

beforeAll(async () => {
  fixture = await openFixture();
  const { broker } = fixture;
  const capsule = await broker.capsule('home');
  mine = assistant(broker.dataUrl, await broker.workload(capsule, 'home', 'mine'));
  neighbour = assistant(broker.dataUrl, await broker.workload(capsule, 'home', 'neighbour'));
  stranger = await newAssistant(broker);
});
afterAll(() => fixture?.close());

describe('an object', () => {
  test('is stored, read, described and deleted', async () => {
    const stored = await mine.put('notes/a.txt', 'hello', {
      'content-type': 'text/plain',
      'cache-control': 'max-age=5',
      'x-object-meta-colour': 'blue',
    });
    expect(stored).toMatchObject({
      status: 200,
      json: { size: 5, trace_id: expect.stringMatching(/^[0-9a-f]{32}$/) },
    });
    const read = await mine.get('notes/a.txt');
    expect([read.status, read.text]).toEqual([200, 'hello']);
    expect(Object.fromEntries(read.headers)).toMatchObject({
      'content-type': 'text/plain',
      'content-length': '5',
      'cache-control': 'max-age=5',
      'x-object-meta-colour': 'blue',
      etag: stored.json.etag,
    });
    const head = await mine.call('HEAD', '/v1/objects/data/notes/a.txt');
    expect([head.status, head.headers.get('content-length'), head.text]).toEqual([200, '5', '']);
    expect(await mine.call('DELETE', '/v1/objects/data/notes/a.txt')).toMatchObject({
      status: 200,
      json: { deleted: 'notes/a.txt' },
    });
    expect(await mine.get('notes/a.txt')).toMatchObject({
      status: 404,
      json: { error: { code: 'not_found' } },
    });
  });

  test('may be empty, and may be large', async () => {
    expect((await mine.put('empty', '')).json.size).toBe(0);
    expect((await mine.get('empty')).text).toBe('');
    const large = randomBytes(20 * 1024 * 1024);
    expect((await mine.put('large', large)).status).toBe(200);
    const response = await fetch(`${fixture.broker.dataUrl}/v1/objects/data/large`, {
      headers: { authorization: `Bearer ${mine.token}` },
    });
    expect(Buffer.from(await response.arrayBuffer()).equals(large)).toBe(true);
  });

  test('is read in part, and only under its conditions', async () => {
    const { json } = await mine.put('cond', '0123456789');
    const { etag } = json;
    const part = await mine.get('cond', { range: 'bytes=2-4' });
    expect([part.status, part.text, part.headers.get('content-range')]).toEqual([206, '234', 'bytes 2-4/10']);
    expect((await mine.get('cond', { 'if-none-match': etag })).status).toBe(304);
    expect(
      (await mine.call('HEAD', '/v1/objects/data/cond', { headers: { 'if-none-match': etag } })).status,
    ).toBe(304);
    expect((await mine.get('cond', { 'if-match': '"other"' })).json.error.code).toBe('precondition_failed');
    expect((await mine.get('cond', { range: 'bytes=10-' })).json.error.code).toBe('range_not_satisfiable');
    for (const range of ['bytes=0-1,3-4', 'bytes=x', 'lines=1-2', 'bytes=-'])
      expect((await mine.get('cond', { range })).json.error.code).toBe('invalid_request');
  });

  test('is read in part only of the requested version, and otherwise as a whole', async () => {
    const { etag } = (await mine.put('resumed', 'AAAAAAAAAA')).json;
    const rest = { range: 'bytes=5-' };
    const resumed = async (more: Record<string, string>) => {
      const { status, text, headers } = await mine.get('resumed', { ...rest, ...more });
      return [status, text, headers.get('content-range')];
    };
    expect(await resumed({ 'if-range': etag })).toEqual([206, 'AAAAA', 'bytes 5-9/10']);
    await mine.put('resumed', 'BBBBBBBBBB');
    const whole = [200, 'BBBBBBBBBB', null];
    // A time says less than a second: an object may be replaced within it.
    for (const stale of [etag, `W/${etag}`, 'Fri, 27 Nov 2026 00:00:00 GMT', 'x'])
      expect(await resumed({ 'if-range': stale })).toEqual(whole);
    expect(await resumed({ 'if-range': etag, 'if-match': etag })).toEqual([412, expect.any(String), null]);
    const head = await mine.call('HEAD', '/v1/objects/data/resumed', {
      headers: { ...rest, 'if-range': etag },
    });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '10']);
    expect((await mine.get('resumed', { 'if-range': etag })).text).toBe('BBBBBBBBBB');
    expect((await mine.get('never', { ...rest, 'if-range': etag })).status).toBe(404);
  });

  test('is written only under its conditions', async () => {
    const first = await mine.put('once', 'a', { 'if-none-match': '*' });
    expect(first.status).toBe(200);
    expect((await mine.put('once', 'b', { 'if-none-match': '*' })).status).toBe(412);
    expect((await mine.put('once', 'b', { 'if-match': '"other"' })).status).toBe(412);
    expect((await mine.put('once', 'b', { 'if-match': first.json.etag })).status).toBe(200);
    const md5 = createHash('md5').update('c').digest('base64');
    expect((await mine.put('once', 'c', { 'content-md5': md5 })).status).toBe(200);
    expect((await mine.put('once', 'x', { 'content-md5': md5 })).json.error.code).toBe('invalid_request');
    expect((await mine.get('once')).text).toBe('c');
    const stale = { 'if-match': '"other"' };
    expect((await mine.call('DELETE', '/v1/objects/data/once', { headers: stale })).status).toBe(412);
    expect((await mine.get('once')).text).toBe('c');
  });

  test('is copied, also between the two buckets, and deleted with others', async () => {
    await mine.put('from', 'copied', { 'x-object-meta-a': 'b' });
    expect(
      (await mine.post('/v1/copies/shared', { from: 'from', from_bucket: 'data', to: 'to' })).status,
    ).toBe(200);
    const copy = await mine.call('GET', '/v1/objects/shared/to');
    expect([copy.text, copy.headers.get('x-object-meta-a')]).toEqual(['copied', 'b']);
    expect((await mine.post('/v1/copies/data', { from: 'nothing', to: 'to' })).json.error.code).toBe(
      'not_found',
    );
    // The mistake is the caller's, and no failure of the S3 server.
    expect((await mine.post('/v1/copies/data', { from: 'from', to: 'from' })).json.error.code).toBe(
      'invalid_request',
    );
    const deleted = await mine.post('/v1/deletions/shared', { keys: ['to', 'never'] });
    expect(deleted.json).toMatchObject({ deleted: ['to', 'never'], failed: [] });
    expect((await mine.call('GET', '/v1/objects/shared/to')).status).toBe(404);
  });

  test('is put together from parts', async () => {
    const { json } = await mine.post('/v1/uploads/data', { key: 'parts', content_type: 'text/plain' });
    const upload = `/v1/uploads/data/${json.upload_id}`;
    const first = randomBytes(5 * 1024 * 1024);
    const one = await mine.call('PUT', `${upload}/1`, { body: first });
    const two = await mine.call('PUT', `${upload}/2`, { body: 'end' });
    const listed = await mine.call('GET', `${upload}?limit=1`);
    expect(listed.json).toMatchObject({ key: 'parts', parts: [{ number: 1, size: first.length }], after: 1 });
    const parts = [
      { number: 1, etag: one.json.etag },
      { number: 2, etag: two.json.etag },
    ];
    for (const [who, status] of [
      [neighbour, 404],
      [stranger, 404],
      [mine, 200],
    ] as const)
      expect((await who.post(`${upload}/complete`, { parts })).status).toBe(status);
    const head = await mine.call('HEAD', '/v1/objects/data/parts');
    expect([head.headers.get('content-length'), head.headers.get('content-type')]).toEqual([
      String(first.length + 3),
      'text/plain',
    ]);
    expect((await mine.call('DELETE', upload)).status).toBe(404);
  });

  test('does not exist if its upload is aborted', async () => {
    const { json } = await mine.post('/v1/uploads/data', { key: 'given-up' });
    const upload = `/v1/uploads/data/${json.upload_id}`;
    await mine.call('PUT', `${upload}/1`, { body: 'x' });
    expect((await neighbour.call('DELETE', upload)).status).toBe(404);
    expect((await mine.call('DELETE', upload)).status).toBe(200);
    expect((await mine.get('given-up')).status).toBe(404);
    expect(await fixture.registry('SELECT * FROM broker.object_upload')).toEqual([]);
  });
});

describe('a list', () => {
  test('is returned page by page, under its prefix and up to its delimiter', async () => {
    for (const key of ['l/a', 'l/b/1', 'l/b/2', 'l/c', 'l2/x']) await mine.put(key, key);
    const seen: string[] = [];
    let cursor = '';
    do {
      const { json } = await mine.call('GET', `/v1/objects/data?prefix=l%2F&delimiter=/&limit=1${cursor}`);
      seen.push(...json.objects.map(({ key }: { key: string }) => key), ...json.prefixes);
      cursor = json.cursor === undefined ? '' : `&cursor=${json.cursor}`;
    } while (cursor !== '');
    expect(seen).toEqual(['l/a', 'l/b/', 'l/c']);
  });

  test('has a cursor that is valid only for its caller and request', async () => {
    const { json } = await mine.call('GET', '/v1/objects/data?prefix=l&limit=1');
    const refused = async (who: Assistant, path: string) =>
      expect((await who.call('GET', path)).json.error.code).toBe('invalid_request');
    const cursor = json.cursor as string;
    expect((await mine.call('GET', `/v1/objects/data?prefix=l&cursor=${cursor}`)).status).toBe(200);
    await refused(mine, `/v1/objects/data?prefix=l2&cursor=${cursor}`);
    await refused(mine, `/v1/objects/data?prefix=l&delimiter=/&cursor=${cursor}`);
    await refused(mine, `/v1/objects/shared?prefix=l&cursor=${cursor}`);
    await refused(neighbour, `/v1/objects/data?prefix=l&cursor=${cursor}`);
    await refused(stranger, `/v1/objects/data?prefix=l&cursor=${cursor}`);
    const changed = `${cursor.slice(0, 60)}${cursor[60] === 'A' ? 'B' : 'A'}${cursor.slice(61)}`;
    for (const other of [changed, cursor.slice(0, -4), '', 'x'.repeat(5_000)])
      await refused(mine, `/v1/objects/data?prefix=l&cursor=${other}`);
    expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toMatch(/c\/[0-9a-f]{40}/);
  });
});

describe('isolation', () => {
  test('separates Assistants, except in the bucket that their Capsule shares', async () => {
    await mine.put('secret', 'mine');
    await mine.call('PUT', '/v1/objects/shared/board', { body: 'ours' });
    for (const who of [neighbour, stranger]) {
      expect((await who.get('secret')).status).toBe(404);
      expect((await who.call('GET', '/v1/objects/data')).json.objects).toEqual([]);
      expect((await who.post('/v1/copies/data', { from: 'secret', to: 'stolen' })).status).toBe(404);
      expect((await who.post('/v1/deletions/data', { keys: ['secret'] })).status).toBe(200);
    }
    expect((await mine.get('secret')).text).toBe('mine');
    expect((await neighbour.call('GET', '/v1/objects/shared/board')).text).toBe('ours');
    expect((await stranger.call('GET', '/v1/objects/shared/board')).status).toBe(404);
  });

  test('does not depend on the secrecy of prefixes', async () => {
    const [row] = await fixture.registry<{ place: string }>(
      "SELECT place FROM broker.workload WHERE app_id = 'mine'",
    );
    for (const path of [
      row?.place,
      `/${row?.place}`,
      `../../../${row?.place}`,
      `%2e%2e/%2e%2e/${row?.place}`,
    ]) {
      for (const bucket of ['data', 'shared', 'space', '..', row?.place ?? '']) {
        const answer = await stranger.call('GET', `/v1/objects/${bucket}/${path}secret`);
        // fetch climbs by itself, out of the routes: then it is a request without an S3 signature.
        expect([400, 403, 404]).toContain(answer.status);
      }
    }
  });
});

describe('the one refusal', () => {
  test('is the same for every caller without a right, whatever is requested', async () => {
    const retired = assistant(fixture.broker.dataUrl, newToken('osw').reveal());
    const bodies = new Set<string>();
    for (const token of ['', retired.token, newToken('osp').reveal(), newToken('dbp').reveal(), 'x']) {
      for (const [method, path] of [
        ['GET', '/v1/objects/data/a'],
        ['GET', '/v1/objects/none/a//b'],
        ['PUT', '/v1/objects/data/a'],
        ['POST', '/v1/deletions/data'],
        ['GET', '/v1/objects/data?limit=x'],
        ['GET', '/v1/s3/credentials'],
      ] as const) {
        const headers = token === '' ? {} : { authorization: `Bearer ${token}` };
        const response = await fetch(`${fixture.broker.dataUrl}${path}`, { method, headers });
        expect(response.status).toBe(403);
        bodies.add((await response.text()).replace(/[0-9a-f]{32}/, ''));
      }
    }
    expect([...bodies]).toEqual(['{"error":{"code":"forbidden"},"trace_id":""}']);
  });

  test('is immediate for a principal that is replaced or dropped', async () => {
    const capsule = await fixture.broker.capsule('leaving');
    const old = assistant(fixture.broker.dataUrl, await fixture.broker.workload(capsule, 'leaving', 'app'));
    expect((await old.put('a', 'x')).status).toBe(200);
    const fresh = assistant(fixture.broker.dataUrl, await fixture.broker.workload(capsule, 'leaving', 'app'));
    expect((await old.get('a')).status).toBe(403);
    expect((await fresh.get('a')).text).toBe('x');
    expect((await capsule.drop('leaving', 'app')).status).toBe(200);
    expect((await fresh.get('a')).status).toBe(403);
    const again = assistant(fixture.broker.dataUrl, await fixture.broker.workload(capsule, 'leaving', 'app'));
    expect((await again.get('a')).status).toBe(404);
  });
});

test('a dropped Capsule leaves nothing in the bucket and no open upload', async () => {
  const { broker } = fixture;
  const capsule = await broker.capsule('gone');
  const one = assistant(broker.dataUrl, await broker.workload(capsule, 'gone', 'app'));
  await one.put('a/b', 'x');
  await one.call('PUT', '/v1/objects/shared/c', { body: 'y' });
  const { json } = await one.post('/v1/uploads/data', { key: 'open' });
  await one.call('PUT', `/v1/uploads/data/${json.upload_id}/1`, { body: 'part' });
  const [row] = await fixture.registry<{ place: string }>(
    "SELECT place FROM broker.store WHERE capsule_id = 'gone'",
  );
  expect((await capsule.dropAll('gone')).status).toBe(200);
  expect((await one.get('a/b')).status).toBe(403);
  const left = readdirSync(join(fixture.s3.directory, 'space'), {
    recursive: true,
    withFileTypes: true,
  }).filter(({ parentPath }) => parentPath.includes(row?.place ?? ''));
  expect(left.filter((entry) => entry.isFile())).toEqual([]);
  expect(await fixture.registry('SELECT * FROM broker.object_upload')).toEqual([]);
});
