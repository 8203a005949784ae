import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import { BUCKET, type TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { isWritingPart } from '../testing/held-writes.ts';
import { callRaw, type RawCaller } from '../testing/raw.ts';

/** Parts that are under way when their upload ends: a server that keeps them as files has them all the same. */

const PART = 256 * 1024;
const LAST = 10;

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
let mine: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
  mine = assistant(broker.dataUrl, (await newAssistant(fixture.broker)).token);
});
afterEach(() => {
  between.fate = () => 'pass';
});
afterAll(async () => {
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

const counted = async () => {
  const text = await (await fetch(`http://127.0.0.1:${broker.metricsPort}/metrics`)).text();
  return Number(/^space_objectstore_late_parts_total (\d+)$/m.exec(text)?.[1]);
};

const partsOnDisk = () =>
  readdirSync(join(fixture.s3.directory, BUCKET, '.sgwtmp'), { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile(),
  );

/** An upload with one part, and a second one of which the last bytes are still to come. */
async function underWay(key: string) {
  const { upload_id: id } = (await mine.post('/v1/uploads/data', { key })).json;
  const first = await mine.call('PUT', `/v1/uploads/data/${id}/1`, { body: 'first' });
  const late = await callRaw(broker.dataUrl);
  late.send(
    `PUT /v1/uploads/data/${id}/2 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-length: ${PART}\r\n\r\n`,
  );
  late.send(Buffer.alloc(PART - LAST));
  await eventually(() => isWritingPart(fixture.s3), { what: 'the server to begin the part' });
  return { id, etag: first.json.etag as string, late };
}

/** Sends the rest of the part; answers the status that its caller gets. */
async function finish({ late }: { readonly late: RawCaller }): Promise<number> {
  late.send(Buffer.alloc(LAST));
  const text = await late.received((so) => so.includes('trace_id'));
  late.socket.destroy();
  return Number(text.slice(9, 12));
}

const ENDS = {
  aborted: (id: string) => mine.call('DELETE', `/v1/uploads/data/${id}`),
  completed: (id: string, etag: string) =>
    mine.post(`/v1/uploads/data/${id}/complete`, { parts: [{ number: 1, etag }] }),
} as const;
const each = test.each(Object.entries(ENDS));

each('a part that comes when its upload was %s is refused, and nothing of it stays', async (name, end) => {
  const upload = await underWay(`behind/${name}`);
  expect((await end(upload.id, upload.etag)).status).toBe(200);
  const before = await counted();
  expect(await finish(upload)).toBe(404);
  expect(await counted()).toBe(before + 1);
  expect(partsOnDisk()).toEqual([]);
});

each('nothing stays of a part that comes while its upload is being %s', async (name, end) => {
  const upload = await underWay(`meanwhile/${name}`);
  let part: number | undefined;
  // The server has ended the upload, and the broker does not know yet.
  between.fate = async ({ method, url }): Promise<Fate> => {
    const isEnd = method !== 'PUT' && url?.includes('uploadId') === true;
    if (isEnd && part === undefined) part = await finish(upload);
    return 'pass';
  };
  expect((await end(upload.id, upload.etag)).status).toBe(200);
  expect(part).toBe(200);
  expect(partsOnDisk()).toEqual([]);
});
