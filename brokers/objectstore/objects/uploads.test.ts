import { existsSync, readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { SharedSlots } from '@space/broker-kit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { Registry } from '../quota/rows.ts';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Fate, startBetween } from '../testing/between.ts';
import { BUCKET } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { spawnBroker } from '../testing/process.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from '../upstream/client.ts';
import { createPool } from '../upstream/managed.ts';
import { createUploads } from './uploads.ts';

const KIB = 1024;

let fixture: Fixture;
let mine: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  mine = await newAssistant(fixture.broker, { quota: 1024 * KIB });
});
afterAll(() => fixture?.close());

const uploading = () => join(fixture.s3.directory, BUCKET, '.sgwtmp', 'multipart');

/** Parts that the S3 server holds of uploads that are not over. */
function partsUpstream(): number {
  const directory = uploading();
  if (!existsSync(directory)) return 0;
  return readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .length;
}

async function begin(key: string, who = mine): Promise<string> {
  const { json } = await who.post('/v1/uploads/data', { key });
  const part = await who.call('PUT', `/v1/uploads/data/${json.upload_id}/1`, {
    body: Buffer.alloc(400 * KIB),
  });
  expect(part.status).toBe(200);
  return json.upload_id;
}

const age = (id: string, hours: number) =>
  fixture.registry(
    'UPDATE broker.object_upload SET created_at = created_at - make_interval(hours => $2) WHERE id = $1',
    [id, hours],
  );

test('an upload that is not completed in a day is aborted: its parts are deleted, its bytes are free, and a younger one stays', async () => {
  const [forgotten, young] = [await begin('forgotten'), await begin('young')];
  expect(partsUpstream()).toBe(2);
  expect((await mine.put('more', Buffer.alloc(400 * KIB))).json.error.code).toBe('quota_exceeded');
  await age(forgotten, 25);
  await age(young, 23);

  // While the store is unavailable no upload is forgotten.
  await fixture.s3.kill();
  await fixture.broker.round('forgotten uploads');
  await fixture.s3.start();
  expect((await mine.call('GET', `/v1/uploads/data/${forgotten}`)).status).toBe(200);

  await fixture.broker.round('forgotten uploads');
  expect(partsUpstream()).toBe(1);
  expect((await mine.call('GET', `/v1/uploads/data/${forgotten}`)).status).toBe(404);
  expect((await mine.put('more', Buffer.alloc(400 * KIB))).status).toBe(200);
  const { json } = await mine.call('GET', `/v1/uploads/data/${young}`);
  const done = await mine.post(`/v1/uploads/data/${young}/complete`, {
    parts: json.parts.map(({ number, etag }: { number: number; etag: string }) => ({ number, etag })),
  });
  expect(done.status).toBe(200);
});

test('one round aborts any number of abandoned uploads, and one that cannot be aborted stops no other', async () => {
  const who = await newAssistant(fixture.broker);
  const { upload_id } = (await who.post('/v1/uploads/data', { key: 'many' })).json;
  await age(upload_id, 25);
  // As many rows of uploads that the S3 server does not know any more, and one that cannot be asked for at all.
  await fixture.registry(
    `INSERT INTO broker.object_upload (id, place, room, key, upstream_id, created_at)
     SELECT md5(i::text || id), place, room, CASE WHEN i = 7 THEN repeat('x', 20000) ELSE key END,
            'gone-' || i, created_at - make_interval(hours => 1)
     FROM broker.object_upload, generate_series(1, 250) AS i WHERE id = $1`,
    [upload_id],
  );
  await fixture.broker.round('forgotten uploads');
  const rows = await fixture.registry<{ upstream_id: string }>(
    'SELECT upstream_id FROM broker.object_upload WHERE room = (SELECT w.place FROM broker.workload w ORDER BY changed_at DESC LIMIT 1)',
  );
  expect(rows.map((row) => row.upstream_id)).toEqual(['gone-7']);
  await fixture.registry("DELETE FROM broker.object_upload WHERE upstream_id = 'gone-7'");
});

test('a Capsule has at most its limit of open uploads over all replicas, and the end of one allows another', async () => {
  const environment = { OPEN_UPLOADS: '5' };
  const replicas = await Promise.all([fixture.replica({ environment }), fixture.replica({ environment })]);
  const who = await newAssistant(fixture.broker);
  const before = uploadsUpstream().length;
  const begun = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      assistant(replicas[i % 2]?.dataUrl ?? '', who.token).post('/v1/uploads/data', { key: `k${i}` }),
    ),
  );
  const open = begun.filter(({ status }) => status === 200);
  expect(open).toHaveLength(5);
  expect(begun.filter(({ json }) => json.error?.code === 'quota_exceeded')).toHaveLength(7);
  // An upload whose caller has gone is aborted at the S3 server, too.
  expect(uploadsUpstream()).toHaveLength(before + 5);
  const one = assistant(replicas[0]?.dataUrl ?? '', who.token);
  await one.call('DELETE', `/v1/uploads/data/${open[0]?.json.upload_id}`);
  const again = await one.post('/v1/uploads/data', { key: 'again' });
  const other = await newAssistant(replicas[0]!);
  const others = await other.post('/v1/uploads/data', { key: 'a' });
  expect([again.status, others.status]).toEqual([200, 200]);
  await other.call('DELETE', `/v1/uploads/data/${others.json.upload_id}`);
  for (const { json } of [...open.slice(1), again])
    await one.call('DELETE', `/v1/uploads/data/${json.upload_id}`);
  for (const replica of replicas) await replica.stop();
});

test('two replicas may abort an upload at the same time', async () => {
  const id = await begin('twice', await newAssistant(fixture.broker));
  await age(id, 25);
  const replica = await fixture.replica();
  await Promise.all([fixture.broker.round('forgotten uploads'), replica.round('forgotten uploads')]);
  const rows = await fixture.registry('SELECT 1 FROM broker.object_upload');
  expect(rows).toEqual([]);
  await replica.stop();
});

/** The S3 server's directories of uploads that are not over. */
function uploadsUpstream(): string[] {
  if (!existsSync(uploading())) return [];
  return readdirSync(uploading()).flatMap((object) =>
    readdirSync(join(uploading(), object)).map((id) => join(uploading(), object, id)),
  );
}

/** The server reports the age of an upload's directory as that of the upload. */
function ageUpstream(directory: string, hours: number): void {
  const at = Date.now() / 1_000 - hours * 3_600;
  utimesSync(directory, at, at);
}

/** A broker is killed after the S3 server has begun uploads and before the registry knows; answers their directories. */
async function strays(who: Assistant, keys: readonly string[]): Promise<string[]> {
  const before = uploadsUpstream();
  const begun = () => uploadsUpstream().filter((one) => !before.includes(one));
  const between = await startBetween(fixture.s3);
  const doomed = await spawnBroker({ ...fixture.mounts.environment, S3_ENDPOINT: between.endpoint });
  between.fate = async (): Promise<Fate> => {
    await doomed.gone;
    return 'lost';
  };
  try {
    const { post } = assistant(doomed.dataUrl, who.token);
    const asked = keys.map((key) => post('/v1/uploads/data', { key }).catch(() => 'killed'));
    await eventually(() => begun().length === keys.length, { what: 'the uploads to be begun' });
    await doomed.kill();
    expect(await Promise.all(asked)).toEqual(keys.map(() => 'killed'));
  } finally {
    await between.close();
  }
  return begun();
}

test('an upload that only the S3 server knows, since its broker was killed, is ended after a day, and no other', async () => {
  const who = await newAssistant(fixture.broker);
  const rows = () => fixture.registry<{ key: string }>('SELECT key FROM broker.object_upload');
  const before = await rows();
  const [old = '', young = ''] = await strays(who, ['old', 'young']);
  // Their rows have no id of the S3 server's.
  expect(await rows()).toHaveLength(before.length + 2);
  // Of which the registry knows, and of somebody else in the bucket.
  const known = await who.post('/v1/uploads/data', { key: 'known' });
  expect(known.status).toBe(200);
  expect(await rows()).toHaveLength(before.length + 3);
  const target = targetAt(fixture.s3, BUCKET);
  const pool = createPool(target, { connections: 1 });
  const direct = createS3Client(target, pool);
  await direct.createUpload('c/of-somebody-else');
  // In a place that another Space has in the same bucket.
  await direct.createUpload(`c/${'0'.repeat(40)}/s/file`);
  await pool.destroy();
  for (const upload of uploadsUpstream()) ageUpstream(upload, upload === young ? 23 : 25);
  const all = uploadsUpstream();
  expect(all).toHaveLength(before.length + 5);

  await fixture.broker.round('stray uploads');
  expect(uploadsUpstream().toSorted()).toEqual(all.filter((one) => one !== old).toSorted());
  ageUpstream(young, 25);
  const replica = await fixture.replica();
  await Promise.all([fixture.broker.round('stray uploads'), replica.round('stray uploads')]);
  await replica.stop();
  expect(uploadsUpstream().toSorted()).toEqual(all.filter((one) => ![old, young].includes(one)).toSorted());
  expect((await who.call('GET', `/v1/uploads/data/${known.json.upload_id}`)).status).toBe(200);
});

test('of one Capsule one list of uploads is read from the registry at a time, and others are read beside it', async () => {
  const reading: { readonly room: string; readonly end: () => void }[] = [];
  const lookup = {
    run: (_step: string, _text: string, [room]: readonly unknown[] = []) =>
      new Promise((resolve) => reading.push({ room: String(room), end: () => resolve([]) })),
  };
  const registry = { lookup } as unknown as Registry;
  const records = new SharedSlots({ total: 2, perKey: 1, queued: 16, queuedPerKey: 8 });
  const uploads = createUploads({ registry, most: 1, records });
  const list = (place: string) =>
    uploads.list(
      place,
      { prefix: '', afterKey: '', afterId: '', limit: 1 },
      { capsulePrefix: place, signal: new AbortController().signal },
    );
  const greedy = Array.from({ length: 8 }, () => list('greedy'));
  const quiet = list('quiet');
  await eventually(async () => reading.length >= 2, { what: 'both read' });
  expect(reading.map(({ room }) => room)).toEqual(['greedy', 'quiet']);
  reading[1]?.end();
  expect(await quiet).toEqual([]);
  for (let i = 0; i < greedy.length; i += 1) {
    await eventually(async () => reading.some(({ room }) => room === 'greedy'), { what: 'the next is read' });
    for (const { end } of reading) end();
    await greedy[i];
  }
  expect(reading).toHaveLength(9);
  expect([records.taken, records.waiting]).toEqual([0, 0]);
});
