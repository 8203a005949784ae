import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { keysOf } from '../api/s3/testing/clients.ts';
import { sendSigned } from '../api/s3/testing/signed.ts';
import { type Assistant, assistant } from '../testing/assistant.ts';
import { type Between, startBetween } from '../testing/between.ts';
import { BUCKET, type Client, type TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { holdWrites, isWritingPart } from '../testing/held-writes.ts';
import { callRaw } from '../testing/raw.ts';

/**
 * Completions that are stopped before their last step: versitygw has renamed the upload then, and lists it no more. It would
 * say of every further completion that it was successful, and of every abort that there is no such upload.
 */

const SIZE = 300 * 1024;

let fixture: Fixture;
let other: TestBroker;
let owner: Client;
let mine: Assistant;
let place: string;
let letGo: () => void = () => undefined;
beforeAll(async () => {
  fixture = await openFixture();
  other = await fixture.replica();
  owner = await fixture.broker.capsule('home', { quota_bytes: 8 * SIZE });
});
beforeEach(async ({ task }) => {
  mine = assistant(
    fixture.broker.dataUrl,
    await fixture.broker.workload(owner, 'home', `a${task.id.slice(-1)}`),
  );
  const [row] = await fixture.registry<{ place: string }>(
    'SELECT place FROM broker.workload ORDER BY changed_at DESC LIMIT 1',
  );
  place = row?.place ?? '';
});
afterEach(() => letGo());
afterAll(async () => {
  await other?.stop();
  await fixture?.close();
});

/** What the S3 server has of uploads. */
function onDisk(): readonly string[] {
  const directory = join(fixture.s3.directory, BUCKET, '.sgwtmp', 'multipart');
  return existsSync(directory) ? readdirSync(directory, { recursive: true }).map(String) : [];
}
const isCompleting = () => onDisk().some((name) => name.endsWith('.inprogress'));

/** An upload with one part, whose completion waits before its last step once it was begun. */
async function begin(key: string) {
  const { upload_id: id } = (await mine.post('/v1/uploads/data', { key })).json;
  const path = `/v1/uploads/data/${id}`;
  const { etag } = (await mine.call('PUT', `${path}/1`, { body: Buffer.alloc(SIZE) })).json;
  letGo = await holdWrites(fixture.s3, `${place}${key}`);
  return {
    path,
    abort: () => mine.call('DELETE', path),
    completeOverS3: async (base: string, headers = {}) =>
      sendSigned(base, await keysOf(mine), {
        ...{ method: 'POST', path: `/data/${key}`, query: { uploadId: id }, headers },
        body: `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part></CompleteMultipartUpload>`,
      }),
    complete: (who = mine) => who.post(`${path}/complete`, { parts: [{ number: 1, etag }] }),
    isOpen: async () => (await mine.call('GET', path)).status === 200,
  };
}

/** The same with a completion that is running; it will fail if its key is that of a directory. */
async function completing(key: string, { fails = false } = {}) {
  if (fails) expect((await mine.put(`${key}/beneath`, '')).status).toBe(200);
  const upload = await begin(key);
  const first = upload.complete();
  await eventually(isCompleting, { what: 'a running completion' });
  return { ...upload, first };
}

async function killServer(): Promise<void> {
  await fixture.s3.kill();
  letGo();
  await fixture.s3.start();
}

test('a completion that the S3 server did not survive makes the object when it is repeated', async () => {
  const { first, complete } = await completing('repeated');
  await killServer();
  expect((await first).json.error.code).toBe('upstream_failed');
  expect((await complete(assistant(other.dataUrl, mine.token))).status).toBe(200);
  expect((await mine.call('HEAD', '/v1/objects/data/repeated')).headers.get('content-length')).toBe(
    String(SIZE),
  );
  expect(onDisk()).toEqual([]);
});

test('an upload whose completion the S3 server did not survive can be aborted', async () => {
  const { first, abort } = await completing('killed');
  await killServer();
  await first;
  expect((await abort()).status).toBe(200);
  expect(onDisk()).toEqual([]);
});

test('an upload is not aborted while it is being completed, so that a failure leaves no parts behind', async () => {
  const { first, abort, isOpen } = await completing('aborted', { fails: true });
  expect((await abort()).json.error.code).toBe('conflict');
  letGo();
  expect((await first).json.error.code).toBe('conflict');
  expect(await isOpen()).toBe(true);
  expect((await abort()).status).toBe(200);
  expect(onDisk()).toEqual([]);
});

test.each([
  [200, false],
  [409, true],
])('a completion through another replica gets the answer of the running one: %i', async (status, fails) => {
  const { first, completeOverS3, abort, isOpen } = await completing(`twice-${status}`, { fails });
  const second = completeOverS3(other.dataUrl);
  await new Promise((resolve) => setTimeout(resolve, 500));
  letGo();
  expect([(await first).status, (await second).status]).toEqual([status, status]);
  expect(await isOpen()).toBe(fails);
  if (fails) await abort();
  expect(onDisk()).toEqual([]);
});

test('of many different completions of an upload few wait, since each keeps its list of parts', async () => {
  const { first, completeOverS3 } = await completing('many');
  const sizes = Array.from({ length: 8 }, (_, i) => `${SIZE + i}`);
  const base = fixture.broker.dataUrl;
  const all = sizes.map((size) => completeOverS3(base, { 'x-amz-mp-object-size': size }));
  const refused = (await Promise.race(all)).status;
  letGo();
  expect([refused, (await first).status]).toEqual([503, 200]);
  // One of those that waited asked for the right size, or for none in particular.
  expect(new Set((await Promise.all(all)).map(({ status }) => status))).toEqual(new Set([200, 503]));
});

test('nothing stays of an upload that gets a part while its completion fails', async () => {
  const { first, abort, path } = await completing('late', { fails: true });
  letGo();
  await first;
  const late = await callRaw(fixture.broker.dataUrl);
  late.send(
    `PUT ${path}/2 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${mine.token}\r\ncontent-length: ${SIZE}\r\n\r\n`,
  );
  late.send(Buffer.alloc(SIZE - 1));
  letGo = await holdWrites(fixture.s3, `${place}late`);
  await eventually(() => isWritingPart(fixture.s3), { what: 'the server to begin the part' });
  const again = mine.post(`${path}/complete`, {
    parts: (await mine.call('GET', path)).json.parts.map(({ number, etag }: Part) => ({ number, etag })),
  });
  await eventually(isCompleting, { what: 'a running completion' });
  late.send(Buffer.alloc(1));
  expect((await late.received((text) => text.includes('trace_id'))).slice(9, 12)).toBe('200');
  late.socket.destroy();
  letGo();
  expect((await again).json.error.code).toBe('conflict');
  expect((await abort()).status).toBe(200);
  expect(onDisk()).toEqual([]);
});

interface Part {
  readonly number: number;
  readonly etag: string;
}

test('nothing stays of a completion whose Assistant is dropped meanwhile', async () => {
  const { first } = await completing('dropped', { fails: true });
  const [row] = await fixture.registry<{ app_id: string }>(
    'SELECT app_id FROM broker.workload ORDER BY changed_at DESC LIMIT 1',
  );
  expect((await owner.drop('home', row?.app_id ?? '')).status).toBe(200);
  letGo();
  expect((await first).status).not.toBe(200);
  expect(onDisk()).toEqual([]);
});

describe('a server that calls a name which it has not given invalid', () => {
  let between: Between;
  let broker: TestBroker;
  beforeAll(async () => {
    between = await startBetween(fixture.s3);
    broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
  });
  afterAll(async () => {
    await broker?.stop();
    await between?.close();
  });

  /** An upload whose completion has failed, which nobody knows. */
  async function lost(key: string) {
    between.fate = ({ method, url = '' }) => {
      if (url.includes('.inprogress')) return { status: 400, code: 'InvalidArgument' };
      return method === 'POST' && url.includes('uploadId=') ? 'lost' : 'pass';
    };
    const caller = assistant(broker.dataUrl, mine.token);
    expect((await caller.put(`${key}/beneath`, '')).status).toBe(200);
    const { path, complete } = await begin(key);
    letGo();
    expect((await complete(caller)).json.error.code).toBe('upstream_failed');
    await caller.call('DELETE', `/v1/objects/data/${key}/beneath`);
    const { fate } = between;
    between.fate = (request, status) =>
      request.url?.includes('.inprogress') ? fate(request, status) : 'pass';
    return { complete: () => complete(caller), abort: () => caller.call('DELETE', path) };
  }

  test('completes it when that is repeated', async () => {
    const { complete } = await lost('unnamed');
    expect((await complete()).status).toBe(200);
    expect(onDisk()).toEqual([]);
  });

  test('aborts it', async () => {
    const { abort } = await lost('unnamed-too');
    expect((await abort()).status).toBe(200);
    expect(onDisk()).toEqual([]);
  });
});
