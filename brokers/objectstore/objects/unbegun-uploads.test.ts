import type { IncomingMessage } from 'node:http';
import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { clientOf } from '../api/s3/testing/clients.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import { BUCKET, type TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { spawnBroker } from '../testing/process.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from '../upstream/client.ts';
import { createPool } from '../upstream/managed.ts';
import type { S3Client } from '../upstream/types.ts';

/** Uploads of which it is not known whether the S3 server has begun them. */

/** What an upload costs whose key has no folder: its object, and two entries beside it. */
const ENTRIES = 3 * 16_384;

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
let direct: S3Client;
let close: () => Promise<void>;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
  const target = targetAt(fixture.s3, BUCKET);
  const pool = createPool(target, { connections: 1 });
  close = () => pool.destroy();
  direct = createS3Client(target, pool);
});
beforeEach(() => {
  between.fate = () => 'pass';
});
afterAll(async () => {
  await close?.();
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

async function withoutServer(act: () => Promise<void>): Promise<void> {
  await fixture.s3.kill();
  await act().finally(() => fixture.s3.start());
}

const isBegin = ({ method, url }: IncomingMessage) => method === 'POST' && url?.includes('uploads=') === true;

const begin = async (one: Assistant, key: string) => {
  const { status, json } = await one.post('/v1/uploads/data', { key });
  return status === 200 ? 'begun' : (json.error.code as string);
};

/** What counts beside the blocks of replicas, of the Capsule that was made last. */
async function counted(): Promise<number> {
  const [row] = await fixture.registry<{ bytes: number }>(
    `SELECT (counted + written
       + coalesce((SELECT sum(bytes) FROM broker.object_doubt d WHERE d.place = u.place), 0)
       + coalesce((SELECT sum(bytes) FROM broker.object_upload o WHERE o.place = u.place), 0))::float8 AS bytes
     FROM broker.object_usage u WHERE place = (SELECT place FROM broker.store s
       JOIN broker.capsule c USING (capsule_id) ORDER BY c.changed_at DESC LIMIT 1)`,
  );
  return row?.bytes ?? 0;
}

const age = (minutes: number) =>
  fixture.registry('UPDATE broker.object_upload SET created_at = created_at - make_interval(mins => $1)', [
    minutes,
  ]);

/** The S3 server's open uploads with such a key. */
const upstream = async (key: string) =>
  (await direct.listUploads({ prefix: 'c/', limit: 1_000 })).uploads.filter((one) => one.key.endsWith(key));

/** Looks for uploads that were not begun, after the blocks told the registry what they hold. */
async function look(): Promise<void> {
  await broker.round('quota');
  await broker.round('unbegun uploads');
}

describe('an upload that could not be begun', () => {
  test('costs nothing if no connection came about', async () => {
    const one = await newAssistant(fixture.broker);
    await withoutServer(async () => expect(await begin(one, 'refused')).toBe('upstream_failed'));
    await fixture.broker.round('quota');
    expect(await counted()).toBe(0);
  });

  test('counts for an hour after the server was silent, and then no longer than until the next look', async () => {
    const one = await newAssistant(broker);
    await withoutServer(async () => {
      for (let i = 0; i < 3; i += 1) expect(await begin(one, 'silent')).toBe('upstream_failed');
    });
    await age(45);
    await look();
    expect(await counted()).toBe(3 * ENTRIES);
    await age(16);
    await withoutServer(look);
    expect(await counted()).toBe(3 * ENTRIES);
    await look();
    expect(await counted()).toBe(0);
  });

  test('counts for a minute after the server said that it has failed', async () => {
    const one = await newAssistant(broker);
    between.fate = async (request) => {
      if (!isBegin(request)) return 'pass';
      for (const { key, id } of await upstream('/failed')) await direct.abortUpload(key, id);
      return { status: 503, code: 'SlowDown' };
    };
    expect(await begin(one, 'failed')).toBe('unavailable');
    await broker.round('quota');
    expect(await counted()).toBe(ENTRIES);
    await age(2);
    await look();
    expect(await counted()).toBe(0);
  });

  test('leaves the next one its slot if it was refused', async () => {
    const narrow = await fixture.replica({
      environment: { S3_ENDPOINT: between.endpoint, OPEN_UPLOADS: '2' },
    });
    const one = await newAssistant(narrow);
    between.fate = (request) => (isBegin(request) ? { status: 403, code: 'AccessDenied' } : 'pass');
    for (let i = 0; i < 3; i += 1) expect(await begin(one, 'denied')).toBe('upstream_failed');
    between.fate = () => 'pass';
    expect(await begin(one, 'allowed')).toBe('begun');
    await narrow.stop();
  });
});

test('an upload that was begun without an answer counts until the S3 server has it no more, and others of its key do not', async () => {
  const one = await newAssistant(broker);
  expect(await begin(one, 'twice')).toBe('begun');
  expect(await begin(one, 'twice-as-long')).toBe('begun');
  between.fate = (request) => (isBegin(request) ? 'lost' : 'pass');
  expect(await begin(one, 'twice')).toBe('upstream_failed');
  await withoutServer(async () => expect(await begin(one, 'twice')).toBe('upstream_failed'));
  between.fate = () => 'pass';
  await age(61);
  await look();
  expect(await upstream('/twice')).toHaveLength(2);
  expect(await counted()).toBe(3 * ENTRIES);

  const rows = await fixture.registry<{ id: string }>(
    "SELECT upstream_id AS id FROM broker.object_upload WHERE key LIKE '%/twice'",
  );
  for (const { key, id } of await upstream('/twice'))
    if (!rows.some((row) => row.id === id)) await direct.abortUpload(key, id);
  await look();
  expect(await counted()).toBe(2 * ENTRIES);
});

test('an upload whose broker was killed after the S3 server has begun it counts as long as it is there', async () => {
  const one = await newAssistant(fixture.broker);
  const doomed = await spawnBroker({ ...fixture.mounts.environment, S3_ENDPOINT: between.endpoint });
  const begun = Promise.withResolvers<void>();
  between.fate = async (request) => {
    if (!isBegin(request)) return 'pass';
    begun.resolve();
    await doomed.gone;
    return 'lost';
  };
  const asked = fetch(`${doomed.dataUrl}/v1/uploads/data`, {
    method: 'POST',
    body: JSON.stringify({ key: 'killed' }),
    headers: { authorization: `Bearer ${one.token}`, 'content-type': 'application/json' },
  }).catch(() => 'killed');
  await begun.promise;
  await doomed.kill();
  expect(await asked).toBe('killed');
  between.fate = () => 'pass';
  await age(120);
  await look();
  expect(await upstream('/killed')).toHaveLength(1);
  const rows = () =>
    fixture.registry("SELECT bytes::float8 AS bytes FROM broker.object_upload WHERE key LIKE '%/killed'");
  expect(await rows()).toEqual([{ bytes: ENTRIES }]);
  const s3 = await clientOf(broker.dataUrl, one);
  const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket: 'data' }));
  expect(Uploads).toEqual([]);
  for (const { key, id } of await upstream('/killed')) await direct.abortUpload(key, id);
  await look();
  expect(await rows()).toEqual([]);
});

test('an upload whose row is gone when the S3 server has begun it is aborted there, and its caller is refused', async () => {
  const one = await newAssistant(broker);
  between.fate = async (request): Promise<Fate> => {
    if (isBegin(request))
      await fixture.registry("DELETE FROM broker.object_upload WHERE key LIKE '%/dropped'");
    return 'pass';
  };
  expect(await begin(one, 'dropped')).not.toBe('begun');
  expect(await upstream('/dropped')).toEqual([]);
});
