import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateX25519Identity } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { copy } from './copy.ts';
import { listPoints } from './list.ts';
import { createSealer } from './sealer.ts';
import {
  command,
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

const POINTS = `${PREFIX}/bucket/points/`;
const OBJECTS = `${PREFIX}/bucket/objects/`;

/** A backup of three objects, and an empty bucket to restore into. */
async function made() {
  const [from, to, target] = [servers.bucket(), servers.bucket(), servers.bucket()];
  for (const name of ['a', 'b', 'c']) await from.s3.put(name, random(100_000));
  const clock = steps(new Date(Date.now() - 3_600_000));
  const run = await runOf(servers, from.s3, to.s3, { clock });
  await copy(run);
  const fileOf = (key: string) => join(servers.s3.directory, to.name, key);
  const [point = ''] = await keysOf(to.s3, POINTS);
  const contents = await keysOf(to.s3, OBJECTS);
  const asked =
    (...named: string[]) =>
    (args: readonly string[] = [], environment = {}) =>
      command(servers, { bucket: target.name, backup: to.name }, [...named, ...args], environment);
  const [restore, check] = [asked('restore'), asked('check')];
  return { from, to, target, run, fileOf, point, contents, restore, check };
}

/** Stores a point with these lines in the place of the one that is there. */
async function rewrite(backup: Awaited<ReturnType<typeof made>>, edit: (lines: string[]) => string[]) {
  const sealer = await createSealer(servers.identity);
  const { body } = await backup.to.s3.read(backup.point, 1_000_000);
  const plain = await Array.fromAsync(await sealer.open(once(body)));
  const lines = Buffer.concat(plain).toString().trimEnd().split('\n');
  const text = Buffer.from(`${edit(lines).join('\n')}\n`);
  const sealed = await sealer.seal(once(text), text.length);
  await backup.to.s3.put(backup.point, Buffer.concat(await Array.fromAsync(sealed.bytes)));
  return {};
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

describe('a restore, and its dry run, are refused without any write if', () => {
  type Case = [string, (backup: Awaited<ReturnType<typeof made>>) => Promise<Record<string, string>>, RegExp];
  test.each<Case>([
    [
      'the identity is another',
      async () => ({ BACKUP_IDENTITY_FILE: servers.write('other', await generateX25519Identity()) }),
      /cannot be opened: give BACKUP_IDENTITY_FILE the identity/,
    ],
    [
      'there is no identity in its file',
      async () => ({ BACKUP_IDENTITY_FILE: servers.write('none', 'age1notthis\n') }),
      /must hold one age identity/,
    ],
    [
      'the Space is another',
      async () => ({ SPACE_NAME: 'other' }),
      /is of the Space "test" and not of "other"/,
    ],
    [
      'the prefix is another',
      async () => ({ BACKUP_S3_PREFIX: 'elsewhere' }),
      /no point in the backup: look at BACKUP_S3_BUCKET and BACKUP_S3_PREFIX/,
    ],
    [
      'the backup has another format',
      (backup) =>
        rewrite(backup, ([head = '', ...rest]) => [head.replace('"format":1', '"format":2'), ...rest]),
      /has format 2 and this program reads 1/,
    ],
    [
      'the point has fewer lines than it says',
      (backup) => rewrite(backup, (lines) => lines.slice(0, -1)),
      /damaged or cut short/,
    ],
    [
      'the point is another one under its name',
      (backup) =>
        rewrite(backup, ([head = '', ...rest]) => [
          head.replace(/"started":"20\d\d/, '"started":"2001'),
          ...rest,
        ]),
      /damaged or cut short/,
    ],
    [
      'the point is cut short',
      async ({ fileOf, point }) => {
        const bytes = readFileSync(fileOf(point));
        writeFileSync(fileOf(point), bytes.subarray(0, bytes.length - 20));
        return {};
      },
      /damaged or cut short/,
    ],
    [
      'a content is cut short',
      async ({ fileOf, contents: [first = ''] }) => {
        writeFileSync(fileOf(first), readFileSync(fileOf(first)).subarray(0, 1_000));
        return {};
      },
      /1 contents of that time are missing or cut short in the backup, that of [abc] among them/,
    ],
    [
      'a content is gone',
      async ({ to, contents: [first = ''] }) => {
        await to.s3.delete(first);
        return {};
      },
      /1 contents of that time are missing/,
    ],
    [
      'the bucket of the backup is not there',
      async () => ({ BACKUP_S3_BUCKET: 'nowhere' }),
      /^the backup's bucket: its server answers 404 NoSuchBucket: look at the BACKUP_S3_ settings/,
    ],
    [
      'the server of the bucket cannot be reached',
      async () => ({ S3_ENDPOINT: 'http://127.0.0.1:1' }),
      /^the Space's bucket: its server cannot be reached/,
    ],
    [
      'both buckets are the same',
      async ({ target }) => ({ BACKUP_S3_BUCKET: target.name }),
      /BACKUP_S3_BUCKET is the Space's own bucket/,
    ],
  ])('%s', async (_, spoil, sentence) => {
    const backup = await made();
    const environment = await spoil(backup);
    const there = await keysOf(backup.to.s3);
    const { code, out, error } = await backup.restore([], environment);
    expect(error).toMatch(sentence);
    expect(await backup.check(['--bucket'], environment)).toEqual({ code, out, error });
    expect(error).not.toMatch(/\n|AGE-SECRET-KEY-1[A-Z0-9]{58}/);
    expect({ code, out }).toEqual({ code: 1, out: [] });
    expect(await keysOf(backup.target.s3)).toEqual([]);
    expect(await keysOf(backup.to.s3)).toEqual(there);
  });

  test('the bucket is not empty', async () => {
    const { target, restore, check } = await made();
    await target.s3.put('mine', Buffer.from('mine'));
    const { code, error } = await restore();
    expect(await check(['--bucket'])).toMatchObject({ code, error });
    expect(await check()).toMatchObject({ code: 0 });
    expect({ code, error }).toMatchObject({
      code: 1,
      error: expect.stringMatching(/not empty, it has 1 objects/),
    });
    expect(await keysOf(target.s3)).toEqual(['mine']);
  });

  test('another restore was interrupted, or somebody wrote there since', async () => {
    const { target, restore, check } = await made();
    await target.s3.put('restore/v1/started', Buffer.from('{}'));
    expect((await restore()).error).toMatch(/another restore of this bucket was cut short/);
    expect((await check(['--bucket'])).error).toMatch(/another restore of this bucket was cut short/);
    expect(await keysOf(target.s3)).toEqual(['restore/v1/started']);
  });

  test('no point is before or after the time, or the time has no zone', async () => {
    const { run, target, restore, check } = await made();
    const [point] = (await listPoints(run)).points;
    const during = new Date(point!.started.getTime() + 1).toISOString();
    expect((await restore(['--at', during])).error).toMatch(/take a time after 20.*, with --at$/);
    expect((await check(['--at', during])).error).toMatch(/take a time after 20.*, with --at$/);
    expect(await keysOf(target.s3)).toEqual([]);
    expect((await restore(['--at', '2026-11-23T10:00:00'])).error).toMatch(/a time with its zone/);
    expect((await restore(['--at', 'yesterday'])).error).toMatch(/a time with its zone/);
    expect((await restore(['--before', 'x'])).error).toMatch(/^usage: /);
  });
});

test('a dry run reports what a restore would do, without a target bucket and any write', async () => {
  const { to, target, check } = await made();
  const there = await keysOf(to.s3);
  const { code, out } = await check([], { S3_ENDPOINT: 'http://127.0.0.1:1' });
  expect([code, JSON.parse(out[0] ?? '')]).toEqual([
    0,
    expect.objectContaining({ command: 'check', objects: 3, bytes: 300_000 }),
  ]);
  expect((await check(['--bucket'])).code).toBe(0);
  expect([await keysOf(target.s3), await keysOf(to.s3)]).toEqual([[], there]);
  expect((await check(['--prefix', 'c/1/', '--to', 'c/2/'])).code).toBe(1);
});

test('a damaged point is skipped and reported, unless it is the newest', async () => {
  const { from, to, target, restore } = await made();
  const buckets = { bucket: from.name, backup: to.name };
  await command(servers, buckets, ['copy']);
  const [older = '', newest = ''] = await keysOf(to.s3, POINTS);
  const { body } = await to.s3.read(newest, 1_000_000);
  await to.s3.put(newest, Buffer.from('damaged'));
  expect((await restore()).error).toMatch(/cannot be opened/);
  expect(await keysOf(target.s3)).toEqual([]);
  await to.s3.put(newest, body);
  await to.s3.put(older, Buffer.from('damaged'));
  const { out } = await restore();
  expect(JSON.parse(out[0] ?? '')).toMatchObject({ objects: 3, notice: expect.stringMatching(/left aside/) });
  const list = await command(servers, buckets, ['list']);
  expect(list).toMatchObject({ code: 1, error: expect.stringMatching(/cannot be opened/) });
  expect(list.out).toHaveLength(1);
});

test('a content that is damaged inside or swapped with another is not restored, and all others are', async () => {
  const { fileOf, contents, target, restore } = await made();
  const [first = '', second = '', third = ''] = contents;
  const [one, two] = [readFileSync(fileOf(first)), readFileSync(fileOf(second))];
  writeFileSync(fileOf(first), two);
  writeFileSync(fileOf(second), one);
  const three = readFileSync(fileOf(third));
  three[50_000] = (three[50_000] ?? 0) ^ 1;
  writeFileSync(fileOf(third), three);
  const { code, error } = await restore();
  expect({ code, error }).toMatchObject({ code: 1, error: expect.stringMatching(/^3 contents are damaged/) });
  expect(await keysOf(target.s3)).toEqual(['restore/v1/started']);
  writeFileSync(fileOf(first), one);
  expect((await restore()).error).toMatch(/^2 contents are damaged/);
  writeFileSync(fileOf(second), two);
  three[50_000] = (three[50_000] ?? 0) ^ 1;
  writeFileSync(fileOf(third), three);
  const { code: last, out } = await restore();
  expect(last).toBe(0);
  expect(JSON.parse(out[0] ?? '')).toMatchObject({ command: 'restore', objects: 3, skipped: 1 });
  expect(await keysOf(target.s3)).toEqual(['a', 'b', 'c']);
});

describe('a copy is refused when', () => {
  /** A copy with a sealed state, as the chart runs it. */
  const copying = ({ from, to }: Awaited<ReturnType<typeof made>>, environment = {}) => {
    const state = { BACKUP_STATE_FILE: servers.write('state.age', 'sealed') };
    return command(servers, { bucket: from.name, backup: to.name }, ['copy'], { ...state, ...environment });
  };

  test('the backup is of another Space or identity, and nothing is written', async () => {
    const backup = await made();
    const there = await keysOf(backup.to.s3);
    const other = { BACKUP_IDENTITY_FILE: servers.write('other', await generateX25519Identity()) };
    expect((await copying(backup, other)).error).toMatch(/cannot be opened/);
    expect((await copying(backup, { SPACE_NAME: 'other' })).error).toMatch(/of the Space "test"/);
    expect(await keysOf(backup.to.s3)).toEqual(there);
  });

  test('a restore of the bucket was interrupted, and nothing is written', async () => {
    const backup = await made();
    await backup.from.s3.put('restore/v1/started', Buffer.from('{}'));
    const there = await keysOf(backup.to.s3);
    expect((await copying(backup)).error).toMatch(/a restore of this bucket was cut short/);
    expect(await keysOf(backup.to.s3)).toEqual(there);
  });

  test('the file of the state cannot be read, and nothing is written', async () => {
    const backup = await made();
    const there = await keysOf(backup.to.s3);
    expect((await copying(backup, { BACKUP_STATE_FILE: '/nowhere' })).error).toMatch(
      /BACKUP_STATE_FILE cannot/,
    );
    expect(await keysOf(backup.to.s3)).toEqual(there);
  });

  test('the clock is behind the newest point, before its state is stored', async () => {
    const { from, to } = await made();
    const clock = steps(new Date('2020-01-01T00:00:00Z'));
    let isStored = false;
    const begin = async () => {
      isStored = true;
    };
    await expect(copy(await runOf(servers, from.s3, to.s3, { clock }), { begin })).rejects.toThrow(
      /set the clock/,
    );
    expect(isStored).toBe(false);
  });
});

test('the commands print a line of JSON each, a list one for each point', async () => {
  const { from, to } = await made();
  const buckets = { bucket: from.name, backup: to.name };
  const copied = await command(servers, buckets, ['copy']);
  expect(JSON.parse(copied.out[0] ?? '')).toMatchObject({
    command: 'copy',
    objects: 3,
    copied: 0,
    bytes: 300_000,
  });
  const { out } = await command(servers, buckets, ['list']);
  expect(out.map((line) => JSON.parse(line))).toMatchObject([
    { format: 1, space: 'test', objects: 3 },
    { format: 1, space: 'test', objects: 3 },
  ]);
  const expired = await command(servers, buckets, ['expire']);
  expect(JSON.parse(expired.out[0] ?? '')).toMatchObject({ command: 'expire', points: 0, contents: 0 });
});

test('a restore creates the bucket only if configured', async () => {
  const { to } = await made();
  const buckets = { bucket: 'not-there-yet', backup: to.name };
  expect((await command(servers, buckets, ['restore'])).error).toMatch(
    /^the Space's bucket: .* NoSuchBucket/,
  );
  expect(await command(servers, buckets, ['restore'], { S3_CREATE_BUCKET: 'true' })).toMatchObject({
    code: 0,
  });
});
