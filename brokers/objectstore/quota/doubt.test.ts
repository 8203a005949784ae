import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CreateMultipartUploadCommand, UploadPartCopyCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { clientOf } from '../api/s3/testing/clients.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import { BUCKET, type TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { spawnBroker } from '../testing/process.ts';

/** Writes with an unknown outcome. */

const KIB = 1024;
const MIB = 1024 * KIB;

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
});
beforeEach(() => {
  between.fate = () => 'pass';
});
afterAll(async () => {
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

/** Bytes of all files below a directory of the S3 server's disk. */
function bytesIn(directory: string): number {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

const bytesOnDisk = () => bytesIn(join(fixture.s3.directory, BUCKET));

/** All that counts against the quota of the Capsule that was made last. */
async function used(): Promise<{ capsulePrefix: string; bytes: number; doubt: number; uploads: number }> {
  const [row] = await fixture.registry<{
    capsulePrefix: string;
    bytes: number;
    doubt: number;
    uploads: number;
  }>(
    `SELECT place AS "capsulePrefix", (counted + written)::float8
       + coalesce((SELECT sum(bytes) FROM broker.object_block b WHERE b.place = u.place), 0)::float8 AS bytes,
       coalesce((SELECT sum(bytes) FROM broker.object_doubt d WHERE d.place = u.place), 0)::float8 AS doubt,
       coalesce((SELECT sum(bytes) FROM broker.object_upload o WHERE o.place = u.place), 0)::float8 AS uploads
     FROM broker.object_usage u WHERE place = (SELECT place FROM broker.store s
       JOIN broker.capsule c USING (capsule_id) ORDER BY c.changed_at DESC LIMIT 1)`,
  );
  if (row === undefined) throw new Error('nothing was written');
  return row;
}

const ageDoubt = (capsulePrefix: string) =>
  fixture.registry(
    "UPDATE broker.object_doubt SET certain_at = certain_at - interval '3 hours' WHERE place = $1",
    [capsulePrefix],
  );

/** Copies of a part whose caller hangs up once the server has the part, until one is refused; answers their number. */
async function hangUpOnCopies(one: Assistant, via: TestBroker, most: number): Promise<number> {
  const s3 = await clientOf(via.dataUrl, one);
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket: 'data', Key: 'parts' }));
  for (let number = 1; number <= most; number += 1) {
    const caller = new AbortController();
    between.fate = async ({ method, url }) => {
      if (method !== 'PUT' || !url?.includes('partNumber')) return 'pass';
      caller.abort();
      return 'lost';
    };
    const outcome = await s3
      .send(
        new UploadPartCopyCommand({
          Bucket: 'data',
          Key: 'parts',
          UploadId,
          PartNumber: number,
          CopySource: '/data/source',
        }),
        { abortSignal: caller.signal },
      )
      .then(
        () => 'stored',
        (error: Error) => error.name,
      );
    if (outcome === 'QuotaExceeded') return number - 1;
    expect(outcome).toBe('AbortError');
    between.fate = () => 'pass';
  }
  return most;
}

test('copies of parts whose caller disconnects count, and in any number they never store more than the quota', async () => {
  const before = bytesOnDisk();
  const one = await newAssistant(broker, { quota: 6 * MIB });
  expect((await one.put('source', Buffer.alloc(MIB))).status).toBe(200);
  expect(await hangUpOnCopies(one, broker, 20)).toBeLessThan(6);
  expect(bytesOnDisk() - before).toBeLessThanOrEqual(6 * MIB);
  expect((await one.put('more', Buffer.alloc(4 * MIB))).json.error.code).toBe('quota_exceeded');
});

test('objects that are stored although the server answers 500 count', async () => {
  const one = await newAssistant(broker, { quota: 4 * MIB });
  const before = bytesOnDisk();
  between.fate = ({ method }) => (method === 'PUT' ? { status: 500, code: 'InternalError' } : 'pass');
  const codes: string[] = [];
  for (let i = 0; i < 12; i += 1) codes.push((await one.put(`a${i}`, Buffer.alloc(MIB))).json.error.code);
  expect(codes.slice(0, 3)).toEqual(['upstream_failed', 'upstream_failed', 'upstream_failed']);
  expect(codes.at(-1)).toBe('quota_exceeded');
  expect(bytesOnDisk() - before).toBeLessThanOrEqual(4 * MIB);
});

test('a write without an answer counts until a count that began after its outcome was certain', async () => {
  const one = await newAssistant(broker, { quota: 4 * MIB });
  between.fate = ({ method }) => (method === 'PUT' ? 'lost' : 'pass');
  expect((await one.put('a', Buffer.alloc(2 * MIB))).json.error.code).toBe('upstream_failed');
  // It is deleted without a read before, with which it would be credited.
  between.fate = ({ method }) => (method === 'HEAD' ? { status: 403, code: 'AccessDenied' } : 'pass');
  await one.call('DELETE', '/v1/objects/data/a');
  between.fate = () => 'pass';
  const full = async () => (await one.put('b', Buffer.alloc(3 * MIB))).json.error?.code;
  // Nothing is there, but the write may arrive yet: a count that looks now proves nothing.
  expect(await full()).toBe('quota_exceeded');
  await broker.round('quota');
  const { capsulePrefix, doubt } = await used();
  expect(doubt).toBeGreaterThan(2 * MIB);
  expect(await full()).toBe('quota_exceeded');
  await ageDoubt(capsulePrefix);
  await eventually(async () => (await full()) === undefined, { what: 'the doubt to end' });
  expect((await used()).doubt).toBe(0);
});

test('a part that was stored when its broker was killed is counted before its doubt ends', async () => {
  const one = await newAssistant(broker, { quota: 8 * MIB });
  const { upload_id } = (await one.post('/v1/uploads/data', { key: 'parts' })).json;
  const doomed = await spawnBroker({ ...fixture.mounts.environment, S3_ENDPOINT: between.endpoint });
  const stored = Promise.withResolvers<void>();
  between.fate = async ({ url }) => {
    if (!url?.includes('partNumber')) return 'pass';
    stored.resolve();
    await doomed.gone;
    return 'lost';
  };
  const asked = fetch(`${doomed.dataUrl}/v1/uploads/data/${upload_id}/1`, {
    method: 'PUT',
    body: Buffer.alloc(5 * MIB),
    headers: { authorization: `Bearer ${one.token}` },
  }).catch(() => 'killed');
  await stored.promise;
  await doomed.kill();
  expect(await asked).toBe('killed');
  between.fate = () => 'pass';
  const { capsulePrefix } = await used();
  await fixture.registry(
    "UPDATE broker.object_block SET renewed_at = now() - interval '6 minutes' WHERE place = $1 AND bytes > 5e6",
    [capsulePrefix],
  );
  await fixture.broker.round('quota');
  expect((await used()).doubt).toBeGreaterThanOrEqual(5 * MIB);
  await ageDoubt(capsulePrefix);
  // What makes a replica count; it learns of the part, and there is still no room.
  expect((await one.put('more', Buffer.alloc(5 * MIB))).json.error.code).toBe('quota_exceeded');
  const after = await used();
  expect(after.doubt).toBe(0);
  expect(after.uploads).toBeGreaterThanOrEqual(5 * MIB);
  await one.call('DELETE', `/v1/uploads/data/${upload_id}`);
  expect((await one.put('more', Buffer.alloc(5 * MIB))).status).toBe(200);
});

test('parts in doubt still count when their upload is aborted', async () => {
  const one = await newAssistant(broker, { quota: 4 * MIB });
  const { upload_id } = (await one.post('/v1/uploads/data', { key: 'parts' })).json;
  between.fate = ({ url }) => (url?.includes('partNumber') ? 'lost' : 'pass');
  const part = await one.call('PUT', `/v1/uploads/data/${upload_id}/1`, { body: Buffer.alloc(3 * MIB) });
  expect(part.json.error.code).toBe('upstream_failed');
  between.fate = () => 'pass';
  expect((await used()).uploads).toBeGreaterThan(3 * MIB);
  expect((await one.call('DELETE', `/v1/uploads/data/${upload_id}`)).status).toBe(200);
  const { uploads, doubt } = await used();
  expect(uploads).toBe(0);
  expect(doubt).toBeGreaterThan(3 * MIB);
  expect((await one.put('a', Buffer.alloc(2 * MIB))).json.error.code).toBe('quota_exceeded');
});

test('a copy keeps its slot among the requests of its Capsule until it ends, also if its caller disconnects', async () => {
  const narrow = await fixture.replica({
    environment: { S3_ENDPOINT: between.endpoint, OBJECT_STREAMS: '1' },
  });
  const one = await newAssistant(narrow);
  await one.put('source', 'x');
  const [asked, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  between.fate = async ({ headers }): Promise<Fate> => {
    if (headers['x-amz-copy-source'] === undefined) return 'pass';
    asked.resolve();
    await go.promise;
    return 'pass';
  };
  const caller = new AbortController();
  const copy = fetch(`${narrow.dataUrl}/v1/copies/data`, {
    method: 'POST',
    body: JSON.stringify({ from: 'source', to: 'copied' }),
    headers: { authorization: `Bearer ${one.token}`, 'content-type': 'application/json' },
    signal: caller.signal,
  }).catch(() => 'hung up');
  await asked.promise;
  caller.abort();
  expect(await copy).toBe('hung up');
  await eventually(() => narrow.log.some((line) => line.includes('cut_short')), {
    what: 'the broker to notice',
  });
  expect((await one.get('source')).json.error.code).toBe('rate_limited');
  go.resolve();
  await eventually(async () => (await one.get('copied')).status === 200, { what: 'the copy to end' });
  await narrow.stop();
});

test('a copy is waited for as long as configured', async () => {
  const hasty = await fixture.replica({
    environment: { S3_ENDPOINT: between.endpoint, S3_LONG_SECONDS: '1' },
  });
  const one = await newAssistant(hasty);
  await one.put('source', 'x');
  const over = Promise.withResolvers<void>();
  between.fate = async ({ headers }): Promise<Fate> => {
    if (headers['x-amz-copy-source'] !== undefined) await over.promise;
    return 'pass';
  };
  const { json } = await one.post('/v1/copies/data', { from: 'source', to: 'copied' });
  expect(json.error.code).toBe('upstream_timeout');
  over.resolve();
  await hasty.stop();
});

test('an object that the server refuses is not counted', async () => {
  const one = await newAssistant(broker, { quota: 4 * MIB });
  between.fate = ({ method }) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : 'pass');
  for (let i = 0; i < 8; i += 1)
    expect((await one.put(`a${i}`, Buffer.alloc(MIB))).json.error.code).toBe('upstream_failed');
  between.fate = () => 'pass';
  expect((await one.put('a', Buffer.alloc(3 * MIB))).status).toBe(200);
});

test('a put whose condition fails is refused before its large body is read, and is not counted', async () => {
  const one = await newAssistant(fixture.broker, { quota: 20 * MIB });
  expect((await one.put('a', 'x')).status).toBe(200);
  const large = Buffer.alloc(16 * MIB);
  for (let i = 0; i < 4; i += 1)
    expect((await one.put('a', large, { 'if-none-match': '*' })).status).toBe(412);
  expect((await one.put('b', large)).status).toBe(200);
});
