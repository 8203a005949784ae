import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { keysOf } from '../api/s3/testing/clients.ts';
import { sendSigned } from '../api/s3/testing/signed.ts';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import type { TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { holdWrites, isReading } from '../testing/held-writes.ts';

/** Copies of objects that are replaced between the look at their size and the copy. */

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
let mine: Assistant;
let writer: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
  writer = await newAssistant(fixture.broker);
  mine = assistant(broker.dataUrl, writer.token);
});
afterEach(() => {
  between.fate = () => 'pass';
});
afterAll(async () => {
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

/** Replaces the source so many times, each time when the broker has looked at it. */
async function replace(times: number): Promise<void> {
  expect((await writer.put('from', '0')).status).toBe(200);
  let left = times;
  between.fate = async ({ method, url }): Promise<Fate> => {
    if (method === 'HEAD' && url?.endsWith('/from') && left > 0) {
      left -= 1;
      await writer.put('from', `${times - left}`);
    }
    return 'pass';
  };
}

const copy = () => mine.post('/v1/copies/data', { from: 'from', to: 'to' });
const overS3 = async (query: Record<string, string>, path: string, conditions = {}) =>
  sendSigned(broker.dataUrl, await keysOf(mine), {
    ...{ method: 'PUT', path, query },
    headers: { 'x-amz-copy-source': '/data/from', ...conditions },
  });

test('copy what the source is then', async () => {
  await replace(2);
  expect(await copy()).toMatchObject({ status: 200, json: { size: 1 } });
  expect((await mine.get('to')).text).toBe('2');
});

test('are done by parts, too', async () => {
  const { upload_id: uploadId } = (await mine.post('/v1/uploads/data', { key: 'parts' })).json;
  await replace(2);
  expect((await overS3({ uploadId, partNumber: '1' }, '/data/parts')).status).toBe(200);
  await mine.call('DELETE', `/v1/uploads/data/${uploadId}`);
});

test('are refused if the source has to be the one that was replaced', async () => {
  await replace(1);
  const { headers } = await writer.call('HEAD', '/v1/objects/data/from');
  const condition = { 'x-amz-copy-source-if-match': headers.get('etag') ?? '' };
  expect((await overS3({}, '/data/to', condition)).code).toBe('PreconditionFailed');
});

test('are to be repeated if the source is replaced all the time', async () => {
  await replace(100);
  const refused = await copy();
  expect(refused.json.error.code).toBe('unavailable');
  expect(refused.headers.get('retry-after')).toBe('1');
});

describe('a source that is deleted during the copy', () => {
  test('is copied, since the server had read all of it', async () => {
    const about = { 'content-type': 'text/plain', 'x-object-meta-name': 'kept' };
    expect((await writer.put('from', 'x', about)).status).toBe(200);
    const [row] = await fixture.registry<{ place: string }>('SELECT place FROM broker.workload');
    const letGo = await holdWrites(fixture.s3, `${row?.place}held`);
    try {
      const copied = overS3({}, '/data/held');
      await eventually(() => isReading(fixture.s3, `${row?.place}from`), { what: 'the server to copy' });
      expect((await writer.call('DELETE', '/v1/objects/data/from')).status).toBe(200);
      letGo();
      expect((await copied).status).toBe(200);
    } finally {
      letGo();
    }
    const { headers, text } = await mine.get('held');
    expect([text, headers.get('content-type'), headers.get('x-object-meta-name')]).toEqual([
      'x',
      'text/plain',
      'kept',
    ]);
  });

  /** Copies an object that is deleted then, and of which the server says that it has failed. */
  const failing = async (to: string, meanwhile: () => Promise<unknown>) => {
    expect((await writer.put('from', 'x')).status).toBe(200);
    between.fate = async ({ method, url }): Promise<Fate> => {
      if (method !== 'PUT' || url?.endsWith(`/${to}`) !== true) return 'pass';
      await writer.call('DELETE', '/v1/objects/data/from');
      await meanwhile();
      return { status: 500, code: 'InternalError' };
    };
    return (await mine.post('/v1/copies/data', { from: 'from', to })).json.error.code;
  };

  test('is not found if there is no copy', async () => {
    const code = await failing('unmade', () => writer.call('DELETE', '/v1/objects/data/unmade'));
    expect(code).toBe('not_found');
  });

  test.each([
    ['with other bytes', 'y', {}],
    ['with other headers', 'x', { 'x-object-meta-name': 'other' }],
  ])('is not said to be missing if there is an object %s, which may be the copy', async (_, body, about) => {
    expect(await failing('another', () => writer.put('another', body, about))).toBe('upstream_failed');
  });

  test('is not found for a part, which the server does not wait with', async () => {
    expect((await writer.put('from', 'x')).status).toBe(200);
    const { upload_id: uploadId } = (await mine.post('/v1/uploads/data', { key: 'part' })).json;
    between.fate = async ({ method, url }): Promise<Fate> => {
      if (method !== 'PUT' || url?.includes('partNumber=') !== true) return 'pass';
      await writer.call('DELETE', '/v1/objects/data/from');
      return { status: 500, code: 'InternalError' };
    };
    const copied = await overS3({ uploadId, partNumber: '1' }, '/data/part');
    expect(copied).toMatchObject({ status: 404, code: 'NoSuchKey' });
    await mine.call('DELETE', `/v1/uploads/data/${uploadId}`);
  });
});

test('a copy that fails although its source is there says so', async () => {
  expect((await writer.put('from', 'x')).status).toBe(200);
  between.fate = ({ method, url }): Fate =>
    method === 'PUT' && url?.endsWith('/to') ? { status: 500, code: 'InternalError' } : 'pass';
  expect((await copy()).json.error.code).toBe('upstream_failed');
});

describe('a look that meets a replacement, and has the size of one state and the entity tag of the next', () => {
  const SIZE = 100 * 1024;
  test.each([
    ['young', 0],
    ['old', 60_000],
  ])('charges no copy too little if the former state is %s', async (_, ageMs) => {
    const { json } = await writer.put('from', Buffer.alloc(SIZE));
    const modified = new Date(Date.now() - ageMs).toUTCString();
    let left = 1;
    between.fate = ({ method, url }): Fate => {
      if (method !== 'HEAD' || !url?.endsWith('/from') || left === 0) return 'pass';
      left -= 1;
      return { head: { 'content-length': '0', etag: json.etag, 'last-modified': modified } };
    };
    // The size that was charged.
    expect(await copy()).toMatchObject({ status: 200, json: { size: SIZE } });
  });
});

test('an object that nobody replaces is copied, however old it is', async () => {
  await writer.put('from', 'x');
  expect((await copy()).status).toBe(200);
  await new Promise((resolve) => setTimeout(resolve, 5_500));
  const looks: string[] = [];
  between.begun = ({ method, url = '' }) => {
    if (method === 'HEAD' && url.endsWith('/from')) looks.push(url);
  };
  expect((await copy()).status).toBe(200);
  expect(looks).toHaveLength(1);
});
