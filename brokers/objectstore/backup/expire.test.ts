import { afterAll, beforeAll, expect, test } from 'vitest';
import { copy } from './copy.ts';
import { expire } from './expire.ts';
import { restore } from './restore.ts';
import { keysOf, PREFIX, runOf, type Servers, startServers, steps } from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const DAY_MS = 86_400_000;

/** Points of four days, each with an object of its own and one that stays; contents are of today by their server. */
async function fourDays() {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  const clock = steps();
  const now = Date.now();
  const run = await runOf(servers, from, to, { clock });
  await from.put('stays', Buffer.from('stays'));
  for (const day of [0, 10, 20, 30]) {
    clock.set(new Date(now + day * DAY_MS));
    await from.put(`day-${day}`, Buffer.from(`day ${day}`));
    await copy(run);
    await from.delete(`day-${day}`);
  }
  const count = async (kind: string) => (await keysOf(to, `${PREFIX}/bucket/${kind}/`)).length;
  return { to, run, clock, now, counts: async () => [await count('points'), await count('objects')] };
}

test('old points are removed with the contents that only they named, and the rest can be restored', async () => {
  const { to, run, clock, now, counts } = await fourDays();
  expect(await counts()).toEqual([4, 5]);
  clock.set(new Date(now + 35 * DAY_MS));
  expect(await expire(run, 14)).toMatchObject({ points: 2, contents: 2 });
  expect(await counts()).toEqual([2, 3]);
  const target = servers.bucket().s3;
  await restore(await runOf(servers, target, to), { at: undefined, makesBucket: false });
  expect(await keysOf(target)).toEqual(['day-30', 'stays']);
});

test('every moment of the kept days can be restored, also one that only an older point has', async () => {
  const { to, run, clock, now, counts } = await fourDays();
  // Fourteen days reach back to day 17, between the points of days 10 and 20.
  clock.set(new Date(now + 31 * DAY_MS));
  expect(await expire(run, 14)).toMatchObject({ points: 1, contents: 1 });
  expect(await counts()).toEqual([3, 4]);
  const target = servers.bucket().s3;
  const at = new Date(now + 18 * DAY_MS);
  const { notice } = await restore(await runOf(servers, target, to), { at, makesBucket: false });
  expect(notice).toBeUndefined();
  expect(await keysOf(target)).toContain('day-10');
});

test('a damaged old point is removed, and the one before it is kept for the first of the kept days', async () => {
  const { to, run, clock, now, counts } = await fourDays();
  const points = await keysOf(to, `${PREFIX}/bucket/points/`);
  await to.put(points[1] ?? '', Buffer.from('damaged'));
  clock.set(new Date(now + 31 * DAY_MS));
  expect(await expire(run, 14)).toMatchObject({ points: 1, contents: 1 });
  expect(await counts()).toEqual([3, 4]);
  expect((await keysOf(to, `${PREFIX}/bucket/points/`))[0]).toBe(points[0]);
});

test('the newest two points are kept whatever their age', async () => {
  const { run, clock, now, counts } = await fourDays();
  clock.set(new Date(now + 3_000 * DAY_MS));
  expect(await expire(run, 14)).toMatchObject({ points: 2 });
  expect(await expire(run, 14)).toMatchObject({ points: 0, contents: 0 });
  expect(await counts()).toEqual([2, 3]);
});

test('a content that no point names is kept for a day, as a run may be about to name it', async () => {
  const { to, run, clock, now, counts } = await fourDays();
  const name = 'f'.repeat(64);
  await to.put(`${PREFIX}/bucket/objects/${name}`, Buffer.from('of a run that was killed'));
  const upload = await to.createUpload(`${PREFIX}/bucket/objects/${'e'.repeat(64)}`);
  clock.set(new Date(now + DAY_MS / 2));
  expect(await expire(run, 3_000)).toMatchObject({ points: 0, contents: 0, uploads: 0 });
  clock.set(new Date(now + 2 * DAY_MS));
  expect(await expire(run, 3_000)).toMatchObject({ points: 0, contents: 1, uploads: 1 });
  expect(await counts()).toEqual([4, 5]);
  await expect(to.abortUpload(`${PREFIX}/bucket/objects/${'e'.repeat(64)}`, upload)).rejects.toThrow(/404/);
});

test('the list of a run that was killed is kept for a day', async () => {
  const { to, run, clock, now } = await fourDays();
  const lists = `${PREFIX}/bucket/inventories/`;
  expect(await keysOf(to, lists)).toEqual([]);
  await to.put(`${lists}20261123T180000000Z`, Buffer.from('of a run that was killed'));
  clock.set(new Date(now + DAY_MS / 2));
  await expire(run, 3_000);
  expect(await keysOf(to, lists)).toHaveLength(1);
  clock.set(new Date(now + 2 * DAY_MS));
  await expire(run, 3_000);
  expect(await keysOf(to, lists)).toEqual([]);
});

test('after an hourly copy, old points are removed, and all others read for that, once a day only', async () => {
  const [from, to] = [servers.bucket().s3, servers.bucket().s3];
  const clock = steps();
  const now = Date.now();
  const run = await runOf(servers, from, to, { clock });
  await from.put('stays', Buffer.from('stays'));
  for (const day of [0, 0.25, 0.5, 0.75, 1, 5, 6]) {
    clock.set(new Date(now + day * DAY_MS));
    await copy(run);
  }
  let read = 0;
  const vault: typeof run.vault = {
    ...run.vault,
    readPoint: (...args) => {
      read += 1;
      return run.vault.readPoint(...args);
    },
  };
  const expireOn = async (day: number) => {
    read = 0;
    clock.set(new Date(now + day * DAY_MS));
    const { points } = await expire({ ...run, vault }, 4, { isDaily: true });
    return { points, read };
  };
  // Four days before are those of 0, 0.25 and 0.5; the last of them is needed, and looked at.
  expect(await expireOn(4.6)).toEqual({ points: 0, read: 1 });
  expect(await expire(run, 4)).toMatchObject({ points: 2 });
  expect(await expireOn(5.4)).toEqual({ points: 0, read: 1 });
  // Now that of 0.5 is a day older than it has to be, and that of 0.75 goes with it.
  expect(await expireOn(5.6)).toEqual({ points: 2, read: 1 + 3 });
});

test('nothing is removed where a point cannot be read', async () => {
  const { to, run, clock, now, counts } = await fourDays();
  const points = await keysOf(to, `${PREFIX}/bucket/points/`);
  await to.put(points.at(-1) ?? '', Buffer.from('damaged'));
  clock.set(new Date(now + 31 * DAY_MS));
  await expect(expire(run, 14)).rejects.toThrow(/cannot be opened/);
  expect(await counts()).toEqual([4, 5]);
});
