import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { request } from 'node:http';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { BUCKET } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { createEntryCount, entriesOf } from './charge.ts';

const KIB = 1024;
const ENTRY = 16 * KIB;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

/** Files and folders on the S3 server's disk. */
const onDisk = () => readdirSync(join(fixture.s3.directory, BUCKET), { recursive: true }).length;

describe('an object without bytes', () => {
  it('costs an entry for each object and each folder, so that no quota allows to fill a disk with empty ones', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    const before = onDisk();
    let stored = 0;
    for (let i = 0; i < 40; i += 1) {
      const { json } = await one.put(`${i}/${'a/'.repeat(20)}x`, '');
      if (json.error === undefined) stored += 1;
      else expect(json.error.code).toBe('quota_exceeded');
    }
    expect(stored).toBe(4);
    expect(onDisk() - before).toBeLessThan(110);
  });

  it('does not fit if the quota is smaller than an entry', async () => {
    const one = await newAssistant(fixture.broker, { quota: ENTRY - 1 });
    expect((await one.put('a', '')).status).toBe(507);
    expect((await one.post('/v1/uploads/data', { key: 'a' })).json.error.code).toBe('quota_exceeded');
  });

  it('costs the same when it is counted, and a folder once; what is deleted is free again', async () => {
    const one = await newAssistant(fixture.broker, { quota: 12 * ENTRY });
    // Charged as three each, and as 2 + 4 when counted.
    for (const key of ['f/g/a', 'f/g/b', 'f/g/c', 'f/g/d']) expect((await one.put(key, '')).status).toBe(200);
    for (let i = 0; i < 6; i += 1)
      await eventually(async () => (await one.put(`top${i}`, '')).status === 200, { what: 'the count' });
    expect((await one.put('top6', '')).status).toBe(507);
    await one.call('DELETE', '/v1/objects/data/f/g/a');
    await eventually(async () => (await one.put('top6', '')).status === 200, { what: 'the count' });
  });

  it('costs an entry also as an empty part', async () => {
    const one = await newAssistant(fixture.broker, { quota: 8 * ENTRY });
    const { upload_id } = (await one.post('/v1/uploads/data', { key: 'a' })).json;
    const codes: string[] = [];
    for (let number = 1; number <= 8; number += 1) {
      const { json } = await one.call('PUT', `/v1/uploads/data/${upload_id}/${number}`, { body: '' });
      codes.push(json.error?.code ?? 'ok');
    }
    expect(codes.filter((code) => code === 'ok')).toHaveLength(5);
  });
});

/** Deeper than a quota of a few entries allows more than once. */
const DEEP = 'a/'.repeat(20);

describe('a write that fails leaves no folder on the disk', () => {
  it('with a name that is too long for a file, which is refused before the S3 server is called', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    expect((await one.put('source', '')).status).toBe(200);
    const before = onDisk();
    for (const key of [
      `1/${DEEP}${'x'.repeat(256)}`,
      `2/${DEEP}${'é'.repeat(128)}/y`,
      `3/${DEEP}${'x'.repeat(256)}/`,
    ]) {
      const codes = [
        (await one.put(key, '')).json.error.code,
        (await one.post('/v1/copies/data', { from: 'source', to: key })).json.error.code,
        (await one.post('/v1/uploads/data', { key })).json.error.code,
      ];
      expect(codes).toEqual(['invalid_request', 'invalid_request', 'invalid_request']);
    }
    expect(onDisk()).toBe(before);
    expect((await one.put(`4/${DEEP}${'x'.repeat(255)}`, '')).status).toBe(200);
  });

  it('with more headers than the file system can store with a file', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    expect((await one.put('first', '')).status).toBe(200);
    const before = onDisk();
    const headers = {
      'content-type': 'x'.repeat(1_000),
      'content-disposition': 'x'.repeat(1_000),
      'content-language': 'x'.repeat(1_000),
      'x-object-meta-a': 'x'.repeat(1_000),
      'x-object-meta-b': 'x'.repeat(1_000),
    };
    for (const key of [`1/${DEEP}x`, `2/${DEEP}x/`]) {
      const { status } = await one.put(key, '', headers);
      // Some file systems keep as much.
      if (status === 200) await one.call('DELETE', `/v1/objects/data/${key}`);
    }
    expect(onDisk()).toBe(before);
  });

  it('if the object of its condition is deleted during the body', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    expect((await one.put('first', '')).status).toBe(200);
    const before = onDisk();
    const { json } = await one.put(`${DEEP}x`, '');
    const half = Buffer.alloc(128 * KIB);
    const put = request(`${fixture.broker.dataUrl}/v1/objects/data/${DEEP}x`, {
      method: 'PUT',
      headers: {
        authorization: `Bearer ${one.token}`,
        'content-length': 2 * half.length,
        'if-match': json.etag,
      },
    });
    const answered = once(put, 'response');
    put.write(half);
    await eventually(async () => isWriting(), { what: 'the server to have looked at the condition' });
    expect((await one.call('DELETE', `/v1/objects/data/${DEEP}x`)).status).toBe(200);
    put.end(half);
    const [{ statusCode }] = await answered;
    expect(statusCode).toBe(404);
    expect(onDisk()).toBe(before);
  });

  it('and an upload that is not completed removes those that were left before', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    const folder = await diskOf(one);
    const before = onDisk();
    const { upload_id } = (await one.post('/v1/uploads/data', { key: 'u/v/w' })).json;
    const at = `/v1/uploads/data/${upload_id}`;
    const { etag } = (await one.call('PUT', `${at}/1`, { body: 'x' })).json;
    mkdirSync(join(folder, 'u/v/w/left/over'), { recursive: true });
    const complete = () => one.post(`${at}/complete`, { parts: [{ number: 1, etag }] });
    expect((await complete()).json.error.code).toBe('upstream_failed');
    expect(existsSync(join(folder, 'u'))).toBe(false);
    expect((await complete()).status).toBe(200);
    await one.call('DELETE', '/v1/objects/data/u/v/w');
    expect(onDisk()).toBe(before);
  });

  it('nor does a marker that a caller created', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    expect((await one.put('kept/', '')).status).toBe(200);
    expect((await one.put('kept', '')).json.error.code).toBe('conflict');
    expect((await one.put('kept/x', '', { 'if-match': '"0"' })).status).toBe(404);
    expect((await one.get('kept/')).status).toBe(200);
  });
});

it('a leftover empty directory conflicts once, and the refused write is not counted', async () => {
  const one = await newAssistant(fixture.broker, { quota: 4 * 1024 * KIB });
  const folder = await diskOf(one);
  const body = Buffer.alloc(3 * 1024 * KIB);
  for (const key of ['put', 'copied']) mkdirSync(join(folder, key, 'left/over'), { recursive: true });
  const refused = await one.put('put', body);
  expect(refused.json.error.code).toBe('unavailable');
  expect(refused.headers.get('retry-after')).toBe('1');
  const copy = () => one.post('/v1/copies/data', { from: 'first', to: 'copied' });
  expect((await copy()).json.error.code).toBe('unavailable');
  expect((await copy()).status).toBe(200);
  await fixture.broker.round('quota');
  const doubts = await fixture.registry(
    `SELECT FROM broker.object_doubt WHERE place = (SELECT place FROM broker.store s
       JOIN broker.capsule c USING (capsule_id) ORDER BY c.changed_at DESC LIMIT 1)`,
  );
  expect(doubts).toEqual([]);
  expect((await one.put('put', body)).status).toBe(200);
});

it('an object whose name has more than 227 bytes is stored, and does not collide with another', async () => {
  const one = await newAssistant(fixture.broker);
  for (const [bytes, second] of [
    [227, 200],
    [228, 400],
  ] as const) {
    const key = `replaced/${'x'.repeat(bytes)}`;
    expect((await one.put(key, 'first')).status).toBe(200);
    expect((await one.put(key, 'second')).status).toBe(second);
    expect((await one.get(key)).text).toBe(second === 200 ? 'second' : 'first');
  }
});

/** Where the objects of the Assistant's own bucket are; it has one afterwards. */
async function diskOf(one: Assistant): Promise<string> {
  const bucket = join(fixture.s3.directory, BUCKET);
  const name = `first-${randomUUID()}`;
  expect((await one.put('first', '')).status).toBe(200);
  expect((await one.put(name, '')).status).toBe(200);
  const found = readdirSync(bucket, { recursive: true, encoding: 'utf8' }).find((path) =>
    path.endsWith(name),
  );
  await one.call('DELETE', `/v1/objects/data/${name}`);
  return dirname(join(bucket, found ?? ''));
}

/** Whether the S3 server takes a body, which is in a file that has no name yet. */
function isWriting(): boolean {
  const descriptors = `/proc/${fixture.s3.pid}/fd`;
  return readdirSync(descriptors).some((one) => {
    try {
      return readlinkSync(join(descriptors, one)).includes('.sgwtmp');
    } catch {
      return false;
    }
  });
}

it('a count finds exactly the entries that the writes were charged', () => {
  const segment = fc.constantFrom('a', 'b', 'a-b', 'a0');
  const key = fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
  fc.assert(
    fc.property(fc.uniqueArray(key, { maxLength: 40 }), fc.boolean(), (keys, own) => {
      const prefix = `c/${'0'.repeat(40)}/${own ? `a/${'1'.repeat(40)}/` : 's/'}`;
      const count = createEntryCount();
      const listed = keys.map((one) => `${prefix}${one}`).toSorted();
      const counted = listed.reduce((sum, one) => sum + count(one), 0);
      const folders = new Set(
        keys.flatMap((one) => one.split('/').map((_, i, all) => `${all.slice(0, i).join('/')}/`)),
      );
      folders.delete('/');
      expect(counted).toBeGreaterThanOrEqual(keys.length + folders.size);
      expect(counted).toBeLessThanOrEqual(keys.reduce((sum, one) => sum + entriesOf(one), 0));
    }),
  );
});
