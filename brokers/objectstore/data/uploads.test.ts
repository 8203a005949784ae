import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { BUCKET } from '../testing/broker.ts';
import { type Stage, setStage } from '../testing/stage.ts';

const KIB = 1024;

let stage: Stage;
let mine: Assistant;
beforeAll(async () => {
  stage = await setStage();
  mine = await newAssistant(stage.broker, { quota: 1024 * KIB });
});
afterAll(() => stage?.close());

/** Parts that the S3 server holds of uploads that are not over. */
function partsUpstream(): number {
  const directory = join(stage.s3.directory, BUCKET, '.sgwtmp', 'multipart');
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
  stage.registry(
    'UPDATE broker.object_upload SET created_at = created_at - make_interval(hours => $2) WHERE id = $1',
    [id, hours],
  );

test('an upload that nobody finished in a day is given up: its parts are gone, its bytes free; a younger one stays', async () => {
  const [forgotten, young] = [await begin('forgotten'), await begin('young')];
  expect(partsUpstream()).toBe(2);
  expect((await mine.put('more', Buffer.alloc(400 * KIB))).json.error.code).toBe('quota_exceeded');
  await age(forgotten, 25);
  await age(young, 23);

  // While the store is away nothing is forgotten about it.
  await stage.s3.kill();
  await stage.broker.round('forgotten uploads');
  await stage.s3.start();
  expect((await mine.call('GET', `/v1/uploads/data/${forgotten}`)).status).toBe(200);

  await stage.broker.round('forgotten uploads');
  expect(partsUpstream()).toBe(1);
  expect((await mine.call('GET', `/v1/uploads/data/${forgotten}`)).status).toBe(404);
  expect((await mine.put('more', Buffer.alloc(400 * KIB))).status).toBe(200);
  const { json } = await mine.call('GET', `/v1/uploads/data/${young}`);
  const done = await mine.post(`/v1/uploads/data/${young}/complete`, {
    parts: json.parts.map(({ number, etag }: { number: number; etag: string }) => ({ number, etag })),
  });
  expect(done.status).toBe(200);
});

test('two replicas may give it up at the same time', async () => {
  const id = await begin('twice', await newAssistant(stage.broker));
  await age(id, 25);
  const replica = await stage.replica();
  await Promise.all([stage.broker.round('forgotten uploads'), replica.round('forgotten uploads')]);
  const rows = await stage.registry('SELECT 1 FROM broker.object_upload');
  expect(rows).toEqual([]);
  await replica.stop();
});
