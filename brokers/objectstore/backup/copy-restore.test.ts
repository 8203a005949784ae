import { execFileSync } from 'node:child_process';
import { utimesSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { S3Client } from '../upstream/types.ts';
import { copy } from './copy.ts';
import { restore } from './restore.ts';
import { MARKERS } from './run.ts';
import {
  everything,
  Kill,
  keysOf,
  PREFIX,
  random,
  runOf,
  type Servers,
  startServers,
  steps,
} from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const MIB = 1024 * 1024;
const whole = { at: undefined, makesBucket: false };

async function put(s3: S3Client, key: string, body: Buffer | string, headers: Record<string, string> = {}) {
  const bytes = Buffer.from(body);
  await s3.put(key, { stream: Readable.from([bytes]), length: bytes.length }, { headers });
}

async function putInParts(s3: S3Client, key: string, parts: readonly Buffer[]) {
  const id = await s3.createUpload(key, { headers: { 'content-type': 'video/mp4', 'x-amz-meta-a': 'b' } });
  const done = [];
  for (const [i, part] of parts.entries())
    done.push({ number: i + 1, ...(await s3.putPart(key, id, i + 1, part)) });
  await s3.completeUpload(key, id, done);
}

/** A source, a destination, and a run over them. */
async function ends(more: Parameters<typeof runOf>[3] = {}) {
  const [from, to] = [servers.bucket(), servers.bucket()];
  return {
    from: from.s3,
    to: to.s3,
    source: from.name,
    backup: to.name,
    run: await runOf(servers, from.s3, to.s3, more),
  };
}

test('objects are restored byte for byte, with their headers and entity tags', async () => {
  const { from, to, backup, run } = await ends();
  await put(from, 'empty', '');
  await put(from, 'six', random(6 * MIB), { 'content-type': 'image/png', 'x-amz-meta-colour': 'blue' });
  await put(from, 'twenty', random(20 * MIB), {
    'cache-control': 'no-store',
    'content-disposition': 'attachment; filename="a b"',
    'content-language': 'de',
  });
  await putInParts(from, 'parts', [random(5 * MIB), random(5 * MIB), random(12)]);
  await putInParts(from, 'uneven', [random(5 * MIB), random(6 * MIB), random(12)]);
  await put(from, 'custody/v1/epoch-test', '{"v":1}', { 'content-type': 'application/json' });
  const secret = 'a-text-that-nobody-may-read';
  await put(from, `plain-name/${secret}`, secret.repeat(10_000), { 'x-amz-meta-note': secret });
  for (const name of [
    'ä/ö 日本',
    '100%/%2F',
    '?#&+',
    '(a)*!\'"<>',
    'a:b@c=d,e;f$',
    '.hidden',
    'x'.repeat(200),
  ])
    await put(from, `odd/${name}`, name, { 'x-amz-meta-odd': 'yes' });
  // A server over a file system takes some of these, and refuses others.
  for (const name of ['folder/', 'a/../b', '..', 'a//b'])
    await from.put(`odder/${name}`, Buffer.alloc(0)).catch(() => undefined);

  const report = await copy(run);
  const before = await everything(from);
  expect(report).toMatchObject({ objects: Object.keys(before).length, left_out: 0 });
  expect(report.copied).toBe(report.objects);
  expect(Object.keys(before)).toContain('odder/folder/');

  // Neither contents nor names of what is in the destination tell anything.
  const directory = join(servers.s3.directory, backup);
  const found = (text: string) =>
    execFileSync('sh', ['-c', `grep -rlaF -e ${text} . | wc -l; find . | grep -cF -e ${text} || true`], {
      cwd: directory,
    }).toString();
  for (const text of [secret, 'plain-name', 'epoch-test', 'twenty', 'image/png'])
    expect(found(text)).toBe('0\n0\n');
  const headed = await keysOf(to);
  expect(
    headed.every((key) => /^home\/bucket\/(?:points\/\d{8}T\d{9}Z|objects\/[0-9a-f]{64})$/.test(key)),
  ).toBe(true);

  const target = servers.bucket();
  const restored = await restore(await runOf(servers, target.s3, to), whole);
  expect(restored).toMatchObject({ objects: report.objects, bytes: report.bytes, skipped: 0 });
  const after = await everything(target.s3);
  const bare = (all: Record<string, unknown>) =>
    Object.fromEntries(
      Object.entries(all).map(([key, value]) => [
        key,
        key === 'uneven' ? { ...Object(value), etag: '' } : value,
      ]),
    );
  expect(bare(after)).toEqual(bare(before));
});

test('a second run copies only what changed, and deleted objects are in no new point', async () => {
  const { from, to, run } = await ends();
  for (const name of ['a', 'b', 'c', 'd']) await put(from, name, `${name} as it was`);
  expect(await copy(run)).toMatchObject({ objects: 4, copied: 4 });
  await put(from, 'b', 'another b');
  await put(from, 'e', 'new');
  await from.delete('c');
  expect(await copy(run)).toMatchObject({ objects: 4, copied: 2, copied_bytes: 12 });
  expect(await copy(run)).toMatchObject({ objects: 4, copied: 0 });
  expect(await keysOf(to, `${PREFIX}/bucket/points/`)).toHaveLength(3);

  const target = servers.bucket();
  await restore(await runOf(servers, target.s3, to), whole);
  expect(await everything(target.s3)).toEqual(await everything(from));
});

test('a content that is missing or truncated in the destination is copied again, and none is overwritten', async () => {
  const { from, to, run } = await ends();
  for (const name of ['a', 'b', 'c']) await put(from, name, `${name} as it was`);
  await copy(run);
  const contents = await keysOf(to, `${PREFIX}/bucket/objects/`);
  const [cut, gone] = contents;
  await to.put(cut!, Buffer.from('cut'));
  await to.delete(gone!);
  expect(await copy(run)).toMatchObject({ objects: 3, copied: 2 });
  expect((await to.read(cut!, 100)).body.toString()).toBe('cut');
  const target = servers.bucket();
  await restore(await runOf(servers, target.s3, to), whole);
  expect(await everything(target.s3)).toEqual(await everything(from));
});

test.each([
  ['no time of change', () => ({ modified: '' })],
  ['a time of change without a zone', (modified: string) => ({ modified: modified.replace(/Z$/, '') })],
  ['no entity tag', () => ({ etag: '' })],
])('an object that the list has with %s is in the point as it is returned', async (_, odd) => {
  const { from, to, run } = await ends();
  for (const name of ['a', 'odd']) await put(from, name, name);
  const list: S3Client['list'] = async (...args) => {
    const page = await from.list(...args);
    const objects = page.objects.map((one) => (one.key === 'odd' ? { ...one, ...odd(one.modified) } : one));
    return { ...page, objects };
  };
  const odder = { ...run, bucket: { ...from, list } };
  expect(await copy(odder)).toMatchObject({ objects: 2, copied: 2, left_out: 0, unreadable: 0 });
  expect(await copy(odder)).toMatchObject({ objects: 2, copied: 0, left_out: 0, unreadable: 0 });
  const target = servers.bucket();
  await restore(await runOf(servers, target.s3, to), whole);
  expect(await everything(target.s3)).toEqual(await everything(from));
});

describe('an object that changes during the copy', () => {
  /** Does something to the bucket right before each of its first reads of a key. */
  const disturbed = (s3: S3Client, key: string, times: number, act: () => Promise<unknown>): S3Client => {
    let left = times;
    return {
      ...s3,
      get: async (asked, ...rest) => {
        if (asked === key && left-- > 0) await act();
        return s3.get(asked, ...rest);
      },
    };
  };
  const restoredFrom = async (to: S3Client) => {
    const target = servers.bucket();
    await restore(await runOf(servers, target.s3, to), whole);
    return everything(target.s3);
  };

  test('is copied completely in its next state', async () => {
    const { from, to, run } = await ends();
    await put(from, 'hot', random(3 * MIB));
    const bucket = disturbed(from, 'hot', 2, () => put(from, 'hot', random(2 * MIB)));
    expect(await copy({ ...run, bucket })).toMatchObject({ objects: 1, left_out: 0 });
    expect(await restoredFrom(to)).toEqual(await everything(from));
  });

  test('is left out if it is deleted', async () => {
    const { from, to, run } = await ends();
    for (const key of ['gone', 'calm']) await put(from, key, key);
    const bucket = disturbed(from, 'gone', 1, () => from.delete('gone'));
    expect(await copy({ ...run, bucket })).toMatchObject({ objects: 1, left_out: 1 });
    expect(Object.keys(await restoredFrom(to))).toEqual(['calm']);
  });

  test('continuously is in the point as it was once, be it a tenant’s object or an anchor of custody', async () => {
    const { from, to, run } = await ends();
    const keys = ['custody/v1/anchor', 'hot'];
    let bucket = from;
    for (const key of keys) {
      await put(from, key, key);
      bucket = disturbed(bucket, key, 100, () => put(from, key, random(10), { 'x-amz-meta-a': 'b' }));
    }
    expect(await copy({ ...run, bucket })).toMatchObject({ objects: 2, copied: 2, left_out: 0 });
    expect(await restoredFrom(to)).toEqual(await everything(from));
    expect(await copy(run)).toMatchObject({ objects: 2, left_out: 0 });
    expect(await restoredFrom(to)).toEqual(await everything(from));
  });
});

test('a restore to a time takes each object as it was then, and the anchors as they were last', async () => {
  const clock = steps();
  const { from, to, run, source } = await ends({ clock });
  const day = (n: number) => new Date(Date.UTC(2026, 0, n));
  const putOn = async (n: number, key: string, body: string) => {
    await put(from, key, body);
    utimesSync(join(servers.s3.directory, source, key), day(n), day(n));
  };
  const copyOn = async (n: number) => {
    clock.set(day(n));
    await copy(run);
  };
  for (const key of ['kept', 'changed', 'deleted', 'twice', 'custody/v1/anchor'])
    await putOn(1, key, 'day 1');
  await copyOn(2);
  for (const key of ['twice', 'early']) await putOn(3, key, 'day 3');
  for (const key of ['changed', 'twice', 'late', 'custody/v1/anchor']) await putOn(5, key, 'day 5');
  await from.delete('deleted');
  await copyOn(6);
  await putOn(7, 'custody/v1/anchor', 'day 7');
  await copyOn(8);

  const restoredTo = async (at: Date | undefined) => {
    const target = servers.bucket();
    const report = await restore(await runOf(servers, target.s3, to), { at, makesBucket: false });
    const bodies: Record<string, string> = {};
    for (const key of await keysOf(target.s3)) bodies[key] = (await target.s3.read(key, 100)).body.toString();
    return { bodies, notice: report.notice ?? '' };
  };
  const last = { 'custody/v1/anchor': 'day 7' };
  const first = { kept: 'day 1', changed: 'day 1', deleted: 'day 1', twice: 'day 1' };
  const later = { kept: 'day 1', changed: 'day 5', twice: 'day 5', early: 'day 3', late: 'day 5' };
  // What changed twice between two points is as the first of them has it, and what was deleted is there.
  expect(await restoredTo(day(4))).toEqual({ bodies: { ...first, early: 'day 3', ...last }, notice: '' });
  expect(await restoredTo(undefined)).toEqual({ bodies: { ...later, ...last }, notice: '' });
  const { bodies, notice } = await restoredTo(day(9));
  expect(bodies).toEqual({ ...later, ...last });
  expect(notice).toMatch(/what changed after 2026-01-08.* is not in it/);
  const earliest = await restoredTo(day(1));
  expect(earliest.bodies).toEqual({ ...first, ...last });
  expect(earliest.notice).toMatch(/no point finished before that time/);
});

describe('killed at any write', () => {
  test.each(['before', 'after'] as const)(
    '%s it was done, a copy leaves no incomplete point, and the next one is complete',
    async (when) => {
      const from = servers.bucket();
      for (const name of ['a', 'b', 'c']) await put(from.s3, name, `${name} as it was`);
      await put(from.s3, 'large', random(17 * MIB));
      let kills = 0;
      for (let write = 1; ; write += 1) {
        const to = servers.bucket();
        const kill = new Kill(write, when);
        const run = await runOf(servers, from.s3, kill.over(to.s3), { atOnce: 2 });
        const ended = await copy(run).then(
          () => 'whole',
          () => 'killed',
        );
        const contents = await keysOf(to.s3, `${PREFIX}/bucket/objects/`);
        const next = await copy(
          await runOf(servers, from.s3, to.s3, { clock: steps(new Date(Date.now() + 60_000)) }),
        );
        // What was there whole is not copied again; what was under way when it was killed may have come in since.
        expect(next.objects).toBe(4);
        expect(next.copied).toBeLessThanOrEqual(4 - contents.length);
        const target = servers.bucket();
        await restore(await runOf(servers, target.s3, to.s3), whole);
        expect(Object.keys(await everything(target.s3))).toEqual(['a', 'b', 'c', 'large']);
        if (ended === 'whole' && !kill.isDead) break;
        kills += 1;
      }
      // Three small contents, four requests for the large one, and the point.
      expect(kills).toBeGreaterThanOrEqual(8);
    },
  );

  test.each(['before', 'after'] as const)(
    '%s it was done, a restore continues when it is repeated',
    async (when) => {
      const { from, to, run } = await ends();
      for (const name of ['a', 'b', 'custody/v1/anchor']) await put(from, name, name);
      await putInParts(from, 'parts', [random(5 * MIB), random(12)]);
      await copy(run);
      const before = await everything(from);
      for (let write = 1; ; write += 1) {
        const target = servers.bucket();
        const kill = new Kill(write, when);
        const cut = await runOf(servers, kill.over(target.s3), to, { atOnce: 2 });
        await restore(cut, whole).catch(() => undefined);
        const keys = await keysOf(target.s3);
        // The anchor is there before anything else is.
        if (keys.length > 1 && !keys.includes('custody/v1/anchor')) expect(keys).toEqual([]);
        const again = await restore(await runOf(servers, target.s3, to), whole);
        // What was under way when it was killed may have come in since.
        expect(again.skipped).toBeGreaterThanOrEqual(keys.filter((key) => !key.startsWith(MARKERS)).length);
        expect(await everything(target.s3)).toEqual(before);
        if (!kill.isDead) break;
      }
    },
  );
});
