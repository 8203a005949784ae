import { createHash } from 'node:crypto';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { S3Error } from '../upstream/errors.ts';
import type { ListedObject, S3Client } from '../upstream/types.ts';
import { copy } from './copy.ts';
import { type Entry, labelOf } from './entry.ts';
import { expire } from './expire.ts';
import { NameTable } from './name-table.ts';
import { pointName } from './point-names.ts';
import { entriesOf, writePoint } from './points.ts';
import { check } from './restore.ts';
import type { Run } from './run.ts';
import type { Vault } from './vault.ts';

/** One Capsule that overwrites its objects between two copies leaves any number of contents in the backup. */

const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-11-23T18:00:00.000Z');
const OLD = new Date(NOW - 10 * DAY_MS).toISOString();
const SPACE = 'test';
const signal = new AbortController().signal;
const hash = (text: string) => createHash('sha256').update(text).digest('hex');
/** Names of contents that only older points have, spread like hashes. */
const churned = (n: number) =>
  `${((n * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, '0')}${String(n).padStart(56, '0')}`;

/** A backup in memory. */
function memory(churn: number) {
  const points = new Map<string, Buffer>();
  const inventories = new Map<string, Buffer>();
  const contents = new Map<string, { readonly size: number; readonly modified: string }>();
  const removed = new Set<string>();
  const about = { points, inventories, contents, removed };
  const vault: Vault = {
    points: async () => [...points.keys()].sort(),
    contents: async function* () {
      for (let n = 0; n < churn; n += 1)
        if (!removed.has(churned(n))) yield { name: churned(n), size: 100, modified: OLD };
      for (const [name, one] of contents) yield { name, ...one };
    },
    writePoint: async ({ name, entries, header }) => {
      const rest = await Array.fromAsync(entries);
      points.set(name, Buffer.concat([await header(), ...rest]));
    },
    readPoint: async function* (name) {
      yield points.get(name) ?? Buffer.alloc(0);
    },
    writeInventory: async (name, bytes) => {
      inventories.set(name, Buffer.concat(await Array.fromAsync(bytes)));
    },
    readInventory: async function* (name) {
      yield inventories.get(name) ?? Buffer.alloc(0);
    },
    removeInventory: async (name) => {
      inventories.delete(name);
    },
    removeInventories: async () => undefined,
    writeContent: async (name, bytes, length) => {
      await Array.fromAsync(bytes);
      contents.set(name, { size: length, modified: new Date(NOW).toISOString() });
    },
    readContent: () => Promise.reject(new Error('nobody reads a content')),
    remove: async (kind, names) => {
      for (const name of names) {
        if (kind === 'points') points.delete(name);
        else contents.delete(name);
        removed.add(name);
      }
    },
    abandonUploads: async () => 0,
    sealedLength: (length) => length,
    nameOf: hash,
  };
  return { about, vault };
}

const objectOf = (key: string, modified = OLD): ListedObject => ({
  key,
  etag: `"${hash(key).slice(0, 8)}"`,
  size: 4,
  modified,
});

function bucketOf(objects: readonly ListedObject[]): S3Client {
  const headOf = ({ etag, size, modified }: ListedObject) => ({
    status: 200,
    headers: { etag, 'content-length': String(size), 'last-modified': new Date(modified).toUTCString() },
  });
  const one = (key: string) => objects.find((object) => object.key === key);
  const bucket: Pick<S3Client, 'list' | 'get' | 'head'> = {
    list: async ({ prefix }) => ({
      objects: objects.filter(({ key }) => key.startsWith(prefix)),
      ...{ prefixes: [], next: undefined },
    }),
    get: async (key, _, sinkFor) => {
      const object = one(key) ?? objectOf(key);
      const sink = sinkFor(headOf(object));
      await new Promise<void>((resolve) => sink.end(Buffer.from('text'), resolve));
      return headOf(object);
    },
    head: async (key) => {
      const object = one(key);
      if (object !== undefined) return headOf(object);
      throw new S3Error('answered', 404, 'NoSuchKey');
    },
  };
  return bucket as S3Client;
}

const runOf = (vault: Vault, bucket: S3Client, now = NOW): Run => ({
  ...{ space: SPACE, bucket, vault, signal, atOnce: 4 },
  clock: { now: () => new Date(now), pause: async () => undefined },
});

function entryOf(object: ListedObject): Entry {
  const { modified: last_modified, key, etag, size } = object;
  const label = labelOf(SPACE, { key, etag, size, last_modified });
  const content = hash(`0\n${label.toString()}`);
  return { key, etag, size, last_modified, headers: {}, content, stored: label.length + size };
}

/** A point with these objects, whose contents are in the backup. */
async function pointOf({ about, vault }: ReturnType<typeof memory>, at: number, entries: readonly Entry[]) {
  const time = new Date(at).toISOString();
  const header = {
    format: 1,
    space: SPACE,
    started: time,
    finished: time,
    objects: entries.length,
    bytes: 0,
  } as const;
  async function* all() {
    yield* entries;
  }
  await writePoint(vault, pointName(new Date(at)), all(), async () => header, signal);
  for (const { content, stored } of entries)
    if (!content.includes('0'.repeat(20))) about.contents.set(content, { size: stored, modified: OLD });
}

/** The most names that a table had. */
let held = 0;
const { set } = NameTable.prototype;
beforeEach(() => {
  held = 0;
  vi.spyOn(NameTable.prototype, 'set').mockImplementation(function (this: NameTable, name, value) {
    set.call(this, name, value);
    held = Math.max(held, this.size);
  });
});
afterEach(() => void vi.restoreAllMocks());

const CHURN = 5_000;
const objects = ['c/a', 'c/b', 'c/c'].map((key) => objectOf(key));

test('a copy holds in memory what the newest point and the bucket have, and not all contents of the backup', async () => {
  const made = memory(CHURN);
  await pointOf(made, NOW - 3_600_000, objects.map(entryOf));
  const bucket = bucketOf([...objects, objectOf('c/new', new Date(NOW - 60_000).toISOString())]);
  expect(await copy(runOf(made.vault, bucket))).toMatchObject({ objects: 4, copied: 1, unreadable: 0 });
  expect(held).toBeLessThan(10);
});

test('a copy uses what a killed one has stored, and copies what the newest point has and the backup has lost', async () => {
  const made = memory(0);
  await pointOf(made, NOW - 3_600_000, objects.map(entryOf));
  const added = objectOf('c/new', new Date(NOW - 60_000).toISOString());
  const { content, stored } = entryOf(added);
  made.about.contents.set(content, { size: stored, modified: new Date(NOW - 1_800_000).toISOString() });
  const [lost] = objects.map(entryOf);
  made.about.contents.delete(lost?.content ?? '');
  const bucket = bucketOf([...objects, added]);
  expect(await copy(runOf(made.vault, bucket))).toMatchObject({ objects: 4, copied: 1 });
  expect(made.about.contents.has(lost?.content ?? '')).toBe(true);
});

test('what a restore needs is found without all contents of the backup in memory', async () => {
  const made = memory(CHURN);
  await pointOf(made, NOW - 3_600_000, objects.map(entryOf));
  const options = { at: undefined, makesBucket: false, withBucket: false };
  expect(await check(runOf(made.vault, bucketOf([])), options)).toMatchObject({ objects: 3 });
  expect(held).toBeLessThan(10);
  const [, lost] = objects.map(entryOf);
  made.about.contents.set(lost?.content ?? '', { size: 1, modified: OLD });
  await expect(check(runOf(made.vault, bucketOf([])), options)).rejects.toThrow(
    '1 contents of that time are missing or cut short in the backup, that of c/b among them',
  );
});

test('contents are removed although the names that points have do not fit into memory at a time', async () => {
  const made = memory(3_000);
  // Each kept point has other contents, and what the oldest one has is in no other.
  for (const [days, from] of [
    [20, 0],
    [19, 1_000],
    [2, 2_000],
    [1, 2_500],
  ] as const) {
    const named = Array.from({ length: from < 2_000 ? 1_000 : 500 }, (_, i) => ({
      ...entryOf(objectOf(`c/${from + i}`)),
      ...{ content: churned(from + i), stored: 100 },
    }));
    await pointOf(made, NOW - days * DAY_MS, named);
  }
  const report = await expire(runOf(made.vault, bucketOf([])), 14, { mostNames: 300 });
  expect(report).toEqual({ points: 1, contents: 1_000, contents_bytes: 100_000, uploads: 0 });
  const gone = Array.from({ length: 3_000 }, (_, n) => made.about.removed.has(churned(n)));
  expect(gone.indexOf(false)).toBe(1_000);
  expect(gone.lastIndexOf(true)).toBe(999);
  expect(held).toBeLessThanOrEqual(301);
});

test('thousands of objects are copied while an earlier one takes long', async () => {
  const { vault } = memory(0);
  const many = Array.from({ length: 2_000 }, (_, i) => objectOf(`c/${String(i).padStart(4, '0')}`));
  const bucket = bucketOf(many);
  const others = Promise.withResolvers<void>();
  let done = 0;
  const get: S3Client['get'] = async (key, ...rest) => {
    if (key === many[0]?.key) await others.promise;
    const head = await bucket.get(key, ...rest);
    done += 1;
    if (done === many.length - 1) others.resolve();
    return head;
  };
  expect(await copy(runOf(vault, { ...bucket, get }))).toMatchObject({ objects: 2_000, copied: 2_000 });
});

/** A page of objects with keys that grow from page to page, and a list that goes on after it. */
const pageOf = (prefix: string, number: number, modified: string) => ({
  objects: Array.from({ length: 1_000 }, (_, i) =>
    objectOf(`${prefix}${String(number * 1_000 + i).padStart(9, '0')}`, modified),
  ),
  ...{ prefixes: [], next: 'more' },
});
const NO_MORE = { objects: [], prefixes: [], next: undefined };
const LATER = new Date(NOW + 60_000).toISOString();
const placeOf = (letter: string) => `c/${letter.repeat(40)}/`;

test('a run ends with the keys of its start, although a Capsule writes others ahead of what is copied', async () => {
  const { about, vault } = memory(0);
  const prefix = `${placeOf('a')}s/`;
  const there = Array.from({ length: 20 }, (_, i) => objectOf(`${prefix}000000000-${i + 10}`));
  let [pages, copied] = [0, 0];
  const list: S3Client['list'] = async (query) => {
    if (query.prefix !== '') return NO_MORE;
    if (query.token === undefined) return { objects: there, prefixes: [], next: 'more' };
    if (about.contents.size === copied) return NO_MORE;
    copied = about.contents.size;
    pages += 1;
    if (pages > 20) throw new Error('the list has no end');
    return pageOf(prefix, pages, LATER);
  };
  const { point, ...report } = await copy(runOf(vault, { ...bucketOf(there), list }));
  expect(report).toMatchObject({ objects: 20, copied: 20, unlisted: 0 });
  const entries = await Array.fromAsync(entriesOf(vault, point, SPACE, signal));
  expect(entries.map(({ key }) => key)).toEqual(there.map(({ key }) => key));
  expect(about.inventories.size).toBe(0);
});

test('a list that grows as fast as it is read is left, and all that others write is in the point', async () => {
  const flooded = `${placeOf('a')}a/${'1'.repeat(40)}/`;
  const others = [`${placeOf('a')}s/shared`, `${placeOf('b')}s/of another`].map((key) => objectOf(key));
  let pages = 0;
  const list: S3Client['list'] = async ({ prefix, after }) => {
    if (prefix !== '') return NO_MORE;
    if (after !== undefined) return { ...NO_MORE, objects: others.filter(({ key }) => key > after) };
    pages += 1;
    if (pages > 100) throw new Error('the list has no end');
    return pageOf(flooded, pages, LATER);
  };
  const bucket = bucketOf(others);
  // The Capsule has deleted its objects again when they are to be copied.
  const get: S3Client['get'] = async (key, ...rest) => {
    if (key.startsWith(flooded)) throw new S3Error('answered', 404, 'NoSuchKey');
    return bucket.get(key, ...rest);
  };
  expect(await copy(runOf(memory(0).vault, { ...bucket, list, get }))).toMatchObject({
    ...{ objects: 2, copied: 2, left_out: 20_000, unreadable: 0 },
    ...{ unlisted: 1, unlisted_prefix: flooded },
  });
});

test('a Capsule may write more objects while its list is read if it had some before', async () => {
  const prefix = `${placeOf('a')}s/`;
  const list: S3Client['list'] = async ({ prefix: asked, token }) => {
    if (asked !== '') return NO_MORE;
    const page = Number(token ?? 0);
    const next = page < 28 ? String(page + 1) : undefined;
    return { ...pageOf(prefix, page, page < 5 ? OLD : LATER), next };
  };
  const get: S3Client['get'] = async () => {
    throw new S3Error('answered', 404, 'NoSuchKey');
  };
  const bucket = { ...bucketOf([]), list, get };
  expect(await copy(runOf(memory(0).vault, bucket))).toMatchObject({ left_out: 29_000, unlisted: 0 });
});
