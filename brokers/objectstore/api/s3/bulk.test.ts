import { createServer } from 'node:http';
import { DeleteObjectsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { portOf, Secret, Turns } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { newAssistant } from '../../testing/assistant.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { createS3Client } from '../../upstream/client.ts';
import { createPool } from '../../upstream/managed.ts';
import { mapInTurns } from '../../upstream/sinks.ts';
import { clientOf } from './testing/clients.ts';

/** Documents of a thousand long keys: no turn of the processor has to do with more than a few of them. */

const LONGEST = Array.from({ length: 1_000 }, (_, i) =>
  [String(i), ...Array<string>(4).fill(`&${'a'.repeat(195)}`)].join('/'),
);
const A_TURN = 10;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());
afterEach(() => vi.restoreAllMocks());

test('a few items are processed in one turn, and none after one that fails', async () => {
  const turns: number[] = [];
  let done = 0;
  const inTurn = async <T>(act: () => T): Promise<T> => {
    const before = done;
    const result = act();
    turns.push(done - before);
    return result;
  };
  const act = (one: number) => {
    done += 1;
    if (one === 600) throw new Error('wrong');
    return one * 2;
  };
  const all = Array.from({ length: 100 }, (_, i) => i);
  expect(await mapInTurns(all, act, inTurn)).toEqual(all.map((one) => one * 2));
  expect(turns).toEqual(Array(all.length / A_TURN).fill(A_TURN));
  done = 0;
  await expect(mapInTurns([...all, 600, ...all], act, inTurn)).rejects.toThrow('wrong');
  expect(done).toBe(101);
});

test('many keys are split into requests of a few, each once, and the remaining ones of all requests are reported', async () => {
  const asked: { readonly bytes: number; readonly keys: readonly string[] }[] = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const keys = [...body.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key ?? '');
    asked.push({ bytes: keys.join('').length, keys });
    response.end(
      `<DeleteResult><Error><Key>${keys[0]}</Key><Code>AccessDenied</Code></Error></DeleteResult>`,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const target = {
    origin: `http://127.0.0.1:${portOf(server)}`,
    ...{ region: 'us-east-1', bucket: 'space', addressing: 'path' as const },
    ...{ accessKeyId: new Secret('a'), secretAccessKey: new Secret('b') },
  };
  const pool = createPool(target, { connections: 4 });
  const client = createS3Client(target, pool);
  let turns = 0;
  const inTurn = async <T>(act: () => T): Promise<T> => {
    turns += 1;
    return act();
  };
  try {
    for (const keys of [LONGEST, LONGEST.map((_, i) => `short-${i}`)]) {
      const plain = keys.map((key) => key.replaceAll('&', 'a'));
      asked.length = 0;
      turns = 0;
      const failed = await client.deleteMany(plain, { inTurn });
      expect(asked.flatMap((one) => one.keys)).toEqual(plain);
      for (const one of asked) {
        expect(one.keys.length).toBeLessThanOrEqual(100);
        expect(one.bytes).toBeLessThanOrEqual(64 * 1024);
      }
      expect(failed).toEqual(asked.map((one) => ({ key: one.keys[0], code: 'AccessDenied' })));
      expect(turns).toBeGreaterThan(keys.length / A_TURN + asked.length);
    }
    expect(await client.deleteMany([])).toEqual([]);
  } finally {
    await pool.destroy();
    server.close();
  }
});

test('a bulk deletion, and a list, use many short turns and are complete', async () => {
  const one = await newAssistant(fixture.broker, { quota: 2 ** 30 });
  const s3 = await clientOf(fixture.broker.dataUrl, one);
  const kept = LONGEST.slice(0, 60);
  for (const key of kept)
    expect((await one.put(encodeURI(key).replaceAll('&', '%26'), 'x')).status).toBe(200);
  const turns = vi.spyOn(Turns.prototype, 'run');

  const listed = await s3.send(new ListObjectsV2Command({ Bucket: 'data' }));
  expect(listed.KeyCount).toBe(kept.length);
  // Written in turns, beside being read in turns.
  expect(turns.mock.calls.length).toBeGreaterThan(kept.length / A_TURN);

  turns.mockClear();
  const Objects = LONGEST.map((Key) => ({ Key }));
  const { Deleted = [], Errors = [] } = await s3.send(
    new DeleteObjectsCommand({ Bucket: 'data', Delete: { Objects } }),
  );
  expect(Errors).toEqual([]);
  expect(Deleted.map(({ Key }) => Key)).toEqual(LONGEST);
  // Judged, asked for and answered.
  expect(turns.mock.calls.length).toBeGreaterThan((3 * LONGEST.length) / A_TURN);
  expect((await s3.send(new ListObjectsV2Command({ Bucket: 'data' }))).KeyCount).toBe(0);

  turns.mockClear();
  const { status, json } = await one.post('/v1/deletions/data', { keys: LONGEST });
  expect([status, json.deleted?.length]).toEqual([200, LONGEST.length]);
  expect(turns.mock.calls.length).toBeGreaterThan((2 * LONGEST.length) / A_TURN);
});
