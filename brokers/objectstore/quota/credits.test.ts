import { createLogger } from '@space/broker-kit';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { parseKey, physicalKey, prefixesOf } from '../objects/object-key.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import type { TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { spawnBroker } from '../testing/process.ts';
import { S3Error } from '../upstream/errors.ts';
import { createEnding } from './credits.ts';
import { addWritten, beginCount, type Count, finishCount, lockUsage, usedBytes } from './rows.ts';

/** What deleting and overwriting credits while nothing can be counted. */

const KIB = 1024;
const MIB = 1024 * KIB;
const ENTRY = 16 * KIB;

let fixture: Fixture;
let between: Between;
/** One that cannot count: its lists fail. */
let broker: TestBroker;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  between.fate = noLists;
  broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
});
afterAll(async () => {
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

function noLists({ url }: { readonly url?: string | undefined }): 'pass' | { status: number; code: string } {
  // But for the one by which a broker tries the bucket out at its start.
  const isRefused = url?.includes('list-type') && !url.includes('space-fit');
  return isRefused ? { status: 403, code: 'AccessDenied' } : 'pass';
}

const put = async (who: Assistant, key: string, bytes: number): Promise<string> =>
  (await who.put(key, Buffer.alloc(bytes))).json?.error?.code ?? 'ok';
const remove = async (who: Assistant, key: string) =>
  (await who.call('DELETE', `/v1/objects/data/${key}`)).status;

/** Of the Capsule that was made last. */
async function credits(): Promise<{
  readonly credited: number;
  readonly objects: number;
  readonly rows: number;
}> {
  const [row] = await fixture.registry<{ credited: number; objects: number; rows: number }>(
    `SELECT credited::float8 AS credited, credited_objects AS objects,
       (SELECT count(*)::int FROM broker.object_credit c WHERE c.place = u.place) AS rows
     FROM broker.object_usage u WHERE place = (SELECT place FROM broker.store s
       JOIN broker.capsule c USING (capsule_id) ORDER BY c.changed_at DESC LIMIT 1)`,
  );
  if (row === undefined) throw new Error('nothing was written');
  return row;
}

const noRoom = 'a count cannot run, and there is';

test('deleting or overwriting at the limit frees space at once, although nothing can be counted', async () => {
  const one = await newAssistant(broker, { quota: MIB });
  expect(await put(one, 'a', 400 * KIB)).toBe('ok');
  expect(await put(one, 'b', 400 * KIB)).toBe('ok');
  expect(await put(one, 'c', 400 * KIB), noRoom).not.toBe('ok');
  expect(await remove(one, 'b')).toBe(200);
  expect(await put(one, 'c', 400 * KIB)).toBe('ok');
  expect(await remove(one, 'a')).toBe(200);
  for (let i = 0; i < 6; i += 1) {
    expect(await put(one, 'c', 300 * KIB + i)).toBe('ok');
    expect((await one.post('/v1/copies/data', { from: 'c', to: 'd' })).status).toBe(200);
  }
});

test('however many callers delete an object at the same time, its bytes are credited once', async () => {
  const one = await newAssistant(broker, { quota: MIB });
  for (const key of ['a', 'b', 'c']) expect(await put(one, key, 300 * KIB)).toBe('ok');
  await Promise.all(Array.from({ length: 40 }, () => remove(one, 'a')));
  expect(await credits()).toEqual({ credited: 300 * KIB + ENTRY, objects: 1, rows: 1 });
  expect(await put(one, 'd', 300 * KIB)).toBe('ok');
  expect(await put(one, 'e', 300 * KIB), noRoom).not.toBe('ok');
});

test('two replicas that delete an object at the same time credit it once', async () => {
  const other = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint } });
  const one = await newAssistant(broker, { quota: MIB });
  for (const key of ['a', 'b']) expect(await put(one, key, 450 * KIB)).toBe('ok');
  const looked = Promise.withResolvers<void>();
  let looks = 0;
  between.fate = async (request) => {
    // All have looked before the first of them deletes.
    if (request.method === 'HEAD' && ++looks === 8) looked.resolve();
    if (request.method === 'HEAD') await looked.promise;
    return noLists(request);
  };
  const via = (at: TestBroker) =>
    fetch(`${at.dataUrl}/v1/objects/data/a`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${one.token}` },
    });
  const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => via(i % 2 === 0 ? broker : other)));
  between.fate = noLists;
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect(await credits()).toEqual({ credited: 450 * KIB + ENTRY, objects: 1, rows: 1 });
  await other.stop();
});

test('a bulk deletion frees space at once, for each object once', async () => {
  const one = await newAssistant(broker, { quota: MIB });
  const keys = Array.from({ length: 8 }, (_, i) => `one-of-many-${i}`);
  for (const key of keys) expect(await put(one, key, 100 * KIB)).toBe('ok');
  const all = { keys: [...keys, 'never-there', 'a-marker/'] };
  const answers = await Promise.all(Array.from({ length: 4 }, () => one.post('/v1/deletions/data', all)));
  expect(answers.map(({ status }) => status)).toEqual(Array(4).fill(200));
  expect(await credits()).toEqual({ credited: 8 * (100 * KIB + ENTRY), objects: 8, rows: 8 });
  expect(await put(one, 'another', 800 * KIB)).toBe('ok');
  expect(await put(one, 'too-much', 400 * KIB), noRoom).not.toBe('ok');
});

test('a completed upload that replaces an object frees the space of the old one', async () => {
  const one = await newAssistant(broker, { quota: 2 * MIB });
  expect(await put(one, 'a', 900 * KIB)).toBe('ok');
  for (let i = 0; i < 4; i += 1) {
    const { json } = await one.post('/v1/uploads/data', { key: 'a' });
    const at = `/v1/uploads/data/${json.upload_id}`;
    const part = await one.call('PUT', `${at}/1`, { body: Buffer.alloc(900 * KIB, i) });
    expect(part.status, JSON.stringify(part.json)).toBe(200);
    const parts = { parts: [{ number: 1, etag: part.json.etag }] };
    // A repeated request is answered again, and credited once.
    const asked = await Promise.all([one.post(`${at}/complete`, parts), one.post(`${at}/complete`, parts)]);
    expect(asked.map(({ status }) => status)).toContain(200);
    expect(await credits()).toMatchObject({ objects: i + 1 });
  }
  expect(await put(one, 'b', 900 * KIB), noRoom).toBe('ok');
  expect(await put(one, 'c', 900 * KIB), noRoom).not.toBe('ok');
});

test('a repeated completion at a server that answers it with success again credits nothing', async () => {
  const one = await newAssistant(broker, { quota: 2 * MIB });
  expect(await put(one, 'a', 900 * KIB)).toBe('ok');
  const { json } = await one.post('/v1/uploads/data', { key: 'a' });
  const at = `/v1/uploads/data/${json.upload_id}`;
  const part = await one.call('PUT', `${at}/1`, { body: Buffer.alloc(900 * KIB, 1) });
  const complete = () => one.post(`${at}/complete`, { parts: [{ number: 1, etag: part.json.etag }] });
  const completion = ({ method, url }: { method?: string | undefined; url?: string | undefined }) =>
    method === 'POST' && url?.includes('uploadId') === true;
  // The object exists without an answer; the object that it replaced is not credited either.
  between.fate = (request) => (completion(request) ? 'lost' : noLists(request));
  expect((await complete()).status).toBe(502);
  const root = 'CompleteMultipartUploadResult';
  const success = `<${root}><ETag>"${'0'.repeat(32)}-1"</ETag></${root}>`;
  between.fate = (request) => (completion(request) ? { success } : noLists(request));
  expect((await complete()).status).toBe(200);
  between.fate = noLists;
  expect(await credits()).toMatchObject({ credited: 0, objects: 0 });
});

test('an object that still exists afterwards is not credited, although the server reports success', async () => {
  const one = await newAssistant(broker, { quota: MIB });
  expect(await put(one, 'a', 100 * KIB)).toBe('ok');
  const { connections } = fixture.broker.context;
  const [row] = await fixture.registry<{ place: string }>(
    'SELECT place FROM broker.store s JOIN broker.capsule c USING (capsule_id) ORDER BY c.changed_at DESC LIMIT 1',
  );
  const stored = new Map(['a', 'b', 'c'].map((key) => [key, `"${key}"`]));
  const ending = createEnding({
    registry: connections,
    quota: { isShort: () => true },
    entryBytes: 0,
    log: createLogger({ service: 'test', level: 'silent' }),
    client: {
      head: async (key) => {
        const etag = stored.get(key);
        if (etag === undefined) throw new S3Error('answered', 404, 'NoSuchKey');
        return { status: 200, headers: { etag, 'last-modified': 'now', 'content-length': '10' } };
      },
    },
  });
  const call = {
    tenant: { capsulePrefix: row!.place, quotaBytes: MIB },
    signal: new AbortController().signal,
  };
  // A bulk deletion names what it left.
  await ending(call, ['a', 'b'], async () => void stored.delete('a'), { failed: () => new Set(['b']) });
  expect(await credits()).toMatchObject({ credited: 10, objects: 1 });
  // A completion that is repeated is a success and changes nothing.
  await ending(call, ['b', 'c'], async () => void stored.set('c', '"other"'), { mayRepeat: true });
  expect(await credits()).toMatchObject({ credited: 20, objects: 2 });
});

test('a state that no object ever had is not credited: the size of one, and the entity tag of the next', async () => {
  const one = await newAssistant(broker, { quota: MIB });
  expect(await put(one, 'a', 800 * KIB)).toBe('ok');
  const { headers } = await one.call('HEAD', '/v1/objects/data/a');
  let looks = 0;
  between.fate = (request): Fate => {
    if (request.method !== 'HEAD' || ++looks > 1) return noLists(request);
    const [size, modified] = ['content-length', 'last-modified'].map((name) => headers.get(name) ?? '');
    return { head: { 'content-length': size ?? '', 'last-modified': modified ?? '', etag: '"next"' } };
  };
  expect(await remove(one, 'a')).toBe(200);
  between.fate = noLists;
  expect(looks).toBeGreaterThan(0);
  expect(await credits()).toMatchObject({ credited: 0, objects: 0 });
});

test('a marker is not credited, since its folder may exist without it', async () => {
  const one = await newAssistant(broker, { quota: 64 * KIB });
  expect(await put(one, 'a/', 0)).toBe('ok');
  expect(await put(one, 'a/b', KIB)).toBe('ok');
  expect(await remove(one, 'a/')).toBe(200);
  expect(await credits()).toMatchObject({ credited: 0 });
});

test('a broker that is killed between the deletion and the credit loses the credit, until the next count', async () => {
  const one = await newAssistant(broker, { quota: MIB });
  for (const key of ['a', 'b']) expect(await put(one, key, 450 * KIB)).toBe('ok');
  const doomed = await spawnBroker({ ...fixture.mounts.environment, S3_ENDPOINT: between.endpoint });
  const deleted = Promise.withResolvers<void>();
  between.fate = async (request) => {
    if (request.method !== 'DELETE') return noLists(request);
    deleted.resolve();
    await doomed.gone;
    return 'lost';
  };
  const asked = fetch(`${doomed.dataUrl}/v1/objects/data/a`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${one.token}` },
  }).catch(() => 'killed');
  await deleted.promise;
  await doomed.kill();
  expect(await asked).toBe('killed');
  between.fate = noLists;
  expect(await remove(one, 'a')).toBe(200);
  expect(await credits()).toMatchObject({ credited: 0, rows: 0 });
  expect(await put(one, 'c', 450 * KIB), noRoom).not.toBe('ok');
  between.fate = () => 'pass';
  await eventually(async () => (await put(one, 'c', 450 * KIB)) === 'ok', { what: 'a count' });
  between.fate = noLists;
});

/** A caller that first reads the object of a key, then deletes it, then gets the answer. */
interface Ender {
  readonly key: string;
  deleted: boolean;
  readonly done: PromiseWithResolvers<void>;
  readonly end: Promise<unknown>;
}

test('with writes, deletions and counts at the same time, never less is counted than stored', async () => {
  const { connections } = fixture.broker.context;
  const silent = createLogger({ service: 'test', level: 'silent' });
  const keys = ['a', 'b', 'c'];
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('write' as const),
        key: fc.constantFrom(...keys),
        bytes: fc.integer({ min: 1, max: 900 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({ kind: fc.constant('look' as const), key: fc.constantFrom(...keys) }),
    },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat(5) }) },
    { weight: 5, arbitrary: fc.constant({ kind: 'count' as const }) },
  );
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 60 }), async (steps) => {
      runs += 1;
      const capsulePrefix = `c/${runs.toString(16).padStart(40, 'e')}/`;
      const prefixes = prefixesOf(`${capsulePrefix}a/${'1'.repeat(40)}/`, `${capsulePrefix}s/`);
      const stored = new Map<string, { readonly bytes: number; readonly version: number }>();
      const ending = createEnding({
        registry: connections,
        quota: { isShort: () => true },
        entryBytes: 0,
        log: silent,
        client: {
          head: async (key) => {
            const object = stored.get(key);
            if (object === undefined) throw new S3Error('answered', 404, 'NoSuchKey');
            const { bytes, version } = object;
            const headers = { etag: `"${version}"`, 'last-modified': 'now', 'content-length': String(bytes) };
            return { status: 200, headers };
          },
        },
      });
      await connections.transaction((session) => lockUsage(session, capsulePrefix));
      const under = <T>(work: Parameters<typeof connections.transaction<T>>[0]) =>
        connections.transaction<T>(work);
      const enders: Ender[] = [];
      let version = 0;
      let count: Count | undefined;
      let listed: number | undefined;
      const sum = () => [...stored.values()].reduce((all, { bytes }) => all + bytes, 0);
      for (const one of steps) {
        if (one.kind === 'write') {
          await under((session) => addWritten(session, capsulePrefix, one.bytes));
          stored.set(physicalKey(prefixes, 'data', parseKey(one.key)!), {
            bytes: one.bytes,
            version: ++version,
          });
        } else if (one.kind === 'look') {
          const key = physicalKey(prefixes, 'data', parseKey(one.key)!);
          const [looked, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
          const who = { tenant: { capsulePrefix, quotaBytes: 1 }, signal: new AbortController().signal };
          const end = ending(who, [key], () => {
            looked.resolve();
            return done.promise;
          });
          await looked.promise;
          enders.push({ key, deleted: false, done, end });
        } else if (one.kind === 'end') {
          const ender = enders[one.which % enders.length];
          if (ender === undefined) continue;
          if (!ender.deleted) {
            stored.delete(ender.key);
            ender.deleted = true;
            continue;
          }
          enders.splice(enders.indexOf(ender), 1);
          ender.done.resolve();
          await ender.end;
        } else if (count === undefined) {
          count = await under((session) => beginCount(session, capsulePrefix));
        } else if (listed === undefined) {
          listed = sum();
        } else {
          const [begun, found] = [count, listed];
          await under((session) => finishCount(session, capsulePrefix, begun, found));
          [count, listed] = [undefined, undefined];
        }
        expect(await usedBytes(connections.lookup, capsulePrefix)).toBeGreaterThanOrEqual(sum());
      }
      for (const { done, end } of enders) {
        done.resolve();
        await end;
      }
    }),
    { numRuns: 60 },
  );
});
