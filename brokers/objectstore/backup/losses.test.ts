import { utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER_KEY } from '../upstream/owner.ts';
import { command, keysOf, PREFIX, random, type Servers, startServers } from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const EPOCH = 'custody/v1/epoch-test';
const ANCHOR = `custody/v1/${'a'.repeat(40)}`;
const TRIAL = 'custody/v1/precondition';
const OBJECTS = ['1', '2', '3'].map((name) => `c/${'0'.repeat(40)}/s/${name}`);

/** A bucket as the broker fills it, and a backup with one point of it. */
async function made(anchors = [ANCHOR]) {
  const [from, to] = [servers.bucket(), servers.bucket()];
  const put = async (...keys: string[]) => {
    for (const key of keys) await from.s3.put(key, random(10));
  };
  const remove = async (...keys: string[]) => {
    for (const key of keys) await from.s3.delete(key);
  };
  const copied = (environment: Record<string, string> = {}) =>
    command(servers, { bucket: from.name, backup: to.name }, ['copy', '--expire'], environment);
  const all = [OWNER_KEY, EPOCH, TRIAL, ...anchors, ...OBJECTS];
  await put(...all);
  const { out } = await copied();
  const { point = '' }: { point?: string } = JSON.parse(out[0] ?? '{}');
  const fileOf = (key: string) => join(servers.s3.directory, from.name, key);
  return { fileOf, to: to.s3, put, remove, copied, all, point };
}

const POINTS = `${PREFIX}/bucket/points/`;

type Made = Awaited<ReturnType<typeof made>>;

describe('no point is made if the bucket', () => {
  test.each<[string, (bucket: Made) => Promise<void>, RegExp, number]>([
    [
      'was emptied',
      ({ remove, all }) => remove(...all),
      /lacks 3 of its 3 records, custody\/v1\/a+ for one: it was emptied, or is another one; /,
      0,
    ],
    [
      'was emptied, and the broker has written its epoch again',
      async ({ remove, put, all }) => {
        await remove(...all);
        await put(EPOCH);
      },
      /lacks 2 of its 3 records, .*: it was emptied/,
      1,
    ],
    [
      'has lost an anchor of custody',
      ({ remove }) => remove(ANCHOR),
      /lacks 1 of its 3 records, custody\/v1\/a+ for one: it was set back, or something else than the broker/,
      0,
    ],
    [
      'has lost the record of its owner',
      ({ remove }) => remove(OWNER_KEY),
      /lacks 1 .*, space-owner for one/,
      0,
    ],
  ])('%s', async (_, lose, sentence, anew) => {
    const bucket = await made();
    const there = await keysOf(bucket.to);
    await lose(bucket);
    const { code, out, error } = await bucket.copied();
    expect({ code, out, error }).toEqual({ code: 1, out: [], error: expect.stringMatching(sentence) });
    expect(error).toContain(`copy once with BACKUP_ACCEPT_LOSS=${bucket.point}`);
    expect(error).not.toMatch(/\n/);
    const isContent = (key: string) => key.startsWith(`${PREFIX}/bucket/objects/`);
    const added = (await keysOf(bucket.to)).filter((key) => !there.includes(key));
    expect(added.filter((key) => !isContent(key))).toEqual([]);
    // What the bucket has anew may have been copied; what it has not cannot.
    expect(added).toHaveLength(anew);
  });

  test('was emptied, and the broker of a Space without credential sets has started on it', async () => {
    const { fileOf, to, put, remove, copied, all } = await made([]);
    const points = await keysOf(to, POINTS);
    await remove(...all);
    await put(OWNER_KEY, EPOCH);
    const later = new Date(Date.now() + 5_000);
    utimesSync(fileOf(OWNER_KEY), later, later);
    const { code, error } = await copied();
    expect({ code, error }).toEqual({
      code: 1,
      error: expect.stringMatching(
        /has none of its 3 objects of Capsules, and another space-owner: it was emptied/,
      ),
    });
    expect(await keysOf(to, POINTS)).toEqual(points);
  });
});

describe('a point is made', () => {
  test('of an emptied bucket once the loss from exactly the newest point is accepted, and after that', async () => {
    const { remove, put, copied, all, point } = await made();
    await remove(...all);
    expect(await copied({ BACKUP_ACCEPT_LOSS: '20200101T000000000Z' })).toMatchObject({ code: 1 });
    const accepting = { BACKUP_ACCEPT_LOSS: point };
    const accepted = await copied(accepting);
    expect(accepted).toMatchObject({ code: 0 });
    expect(JSON.parse(accepted.out[0] ?? '')).toMatchObject({ objects: 0 });
    await put(OWNER_KEY, EPOCH);
    expect(await copied()).toMatchObject({ code: 0 });
    // The setting that stayed accepts no further loss.
    await remove(EPOCH);
    expect(await copied(accepting)).toMatchObject({ code: 1 });
  });

  test('when Capsules have deleted all their objects, and the trial of conditions is gone', async () => {
    const { remove, put, copied } = await made();
    await remove(TRIAL, ...OBJECTS);
    await put(EPOCH, ANCHOR);
    const { code, out } = await copied();
    expect(code).toBe(0);
    expect(JSON.parse(out[0] ?? '')).toMatchObject({ objects: 3, left_out: 0 });
  });
});
