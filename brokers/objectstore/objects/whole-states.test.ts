import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import type { TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** Answers as versitygw gives them when an object is replaced while it is read: the tag of one state, the bytes of the next. */

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
let writer: Assistant;
let mine: Assistant;
beforeAll(async () => {
  // On its own server, with a bucket that it has made.
  const environment = { S3_BUCKET: 'own', S3_CREATE_BUCKET: 'true' };
  fixture = await openFixture({ environment });
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({ environment: { ...environment, S3_ENDPOINT: between.endpoint } });
  writer = await newAssistant(fixture.broker);
  mine = assistant(broker.dataUrl, writer.token);
});
afterEach(() => {
  between.fate = () => 'pass';
  between.begun = () => undefined;
});
afterAll(async () => {
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

/** An object whose first answers have the tag of the state before; its tag. */
async function tornAnswers(key: string, count: number): Promise<string> {
  const former = (await writer.put(key, 'former')).json.etag;
  const { etag } = (await writer.put(key, 'present')).json;
  let left = count;
  between.fate = ({ method, url }) => {
    if (method !== 'GET' || !url?.endsWith(`/${key}`) || left === 0) return 'pass';
    left -= 1;
    return { tag: former };
  };
  return etag;
}

test('an object that is replaced while it is read is read again', async () => {
  const etag = await tornAnswers('once', 2);
  const { status, headers, text } = await mine.get('once');
  expect([status, headers.get('etag'), text]).toEqual([200, etag, 'present']);
});

test('a range is of the state whose tag it has', async () => {
  const etag = await tornAnswers('range', 1);
  const { status, headers, text } = await mine.get('range', { range: 'bytes=0-1' });
  expect([status, headers.get('etag'), text]).toEqual([206, etag, 'pr']);
});

test('an object that is deleted while it is read is not found', async () => {
  await writer.put('deleted', 'x');
  let reads = 0;
  between.fate = async ({ method, url }): Promise<Fate> => {
    if (method !== 'GET' || !url?.endsWith('/deleted')) return 'pass';
    reads += 1;
    if (reads === 1) await writer.call('DELETE', '/v1/objects/data/deleted');
    return 'pass';
  };
  expect([(await mine.get('deleted')).status, reads]).toEqual([404, 2]);
});

test('an object that is replaced all the time is to be asked for again', async () => {
  await tornAnswers('always', 100);
  const { status, headers } = await mine.get('always');
  expect([status, headers.get('retry-after')]).toEqual([503, '1']);
});

test('the size and the tag of an answer without a body are of one state', async () => {
  const { etag } = (await writer.put('headers', 'present')).json;
  let left = 1;
  between.fate = ({ method, url }) => {
    if (method !== 'HEAD' || !url?.endsWith('/headers') || left === 0) return 'pass';
    left -= 1;
    return { head: { 'content-length': '1', etag, 'last-modified': new Date(0).toUTCString() } };
  };
  const { headers } = await mine.call('HEAD', '/v1/objects/data/headers');
  expect([headers.get('content-length'), headers.get('etag')]).toEqual(['7', etag]);
});

test('a long body is passed on completely', async () => {
  const whole = Buffer.alloc(8 * 1024 * 1024, 'x');
  await mine.put('long', whole);
  expect((await mine.get('long')).text.length).toBe(whole.length);
});

test('an object is looked at for that only as long as it is young', async () => {
  await writer.put('old', 'x');
  let looks = 0;
  between.begun = ({ method }) => {
    if (method === 'HEAD') looks += 1;
  };
  expect((await mine.get('old')).text).toBe('x');
  expect(looks).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 5_500));
  expect((await mine.get('old')).text).toBe('x');
  expect(looks).toBe(1);
});
