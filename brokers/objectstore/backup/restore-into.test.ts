import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { S3Client } from '../upstream/types.ts';
import { copy } from './copy.ts';
import { restore } from './restore.ts';
import { restoreInto } from './restore-into.ts';
import {
  command,
  everything,
  Kill,
  keysOf,
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

const place = (letter: string) => `c/${letter.repeat(40)}/`;
const [OLD, NEW, OTHER] = [place('a'), place('b'), place('c')];
const MOVES = [
  { from: `${OLD}s/`, to: `${NEW}s/` },
  { from: `${OLD}a/1/`, to: `${NEW}a/2/` },
];

async function put(s3: S3Client, key: string, body: Buffer | string, headers: Record<string, string> = {}) {
  const bytes = Buffer.from(body);
  await s3.put(key, { stream: Readable.from([bytes]), length: bytes.length }, { headers });
}

/** A bucket that two Capsules use, and its copy. */
async function used() {
  const [from, to] = [servers.bucket(), servers.bucket()];
  const run = await runOf(servers, from.s3, to.s3);
  await put(from.s3, `${OLD}s/shared`, 'of all', { 'x-amz-meta-a': 'b' });
  await put(from.s3, `${OLD}a/1/deep/er`, 'of one', { 'content-type': 'text/plain' });
  const id = await from.s3.createUpload(`${OLD}a/1/parts`, {});
  const done = [];
  for (const [i, part] of [random(5 * 1024 * 1024), random(7)].entries())
    done.push({ number: i + 1, ...(await from.s3.putPart(`${OLD}a/1/parts`, id, i + 1, part)) });
  await from.s3.completeUpload(`${OLD}a/1/parts`, id, done);
  await put(from.s3, `${OLD}a/9/dropped`, 'of one that is gone');
  await put(from.s3, `${OTHER}s/foreign`, 'of another');
  await put(from.s3, 'custody/v1/anchor', 'then');
  await copy(run);
  return { from: from.s3, to: to.s3, names: { bucket: from.name, backup: to.name }, run };
}

const under = (all: Record<string, unknown>, ...prefixes: string[]) =>
  Object.fromEntries(Object.entries(all).filter(([key]) => prefixes.some((one) => key.startsWith(one))));

test('objects under some prefixes are restored under others, and nothing else is changed', async () => {
  const { from, to, run } = await used();
  const before = await everything(from);
  await put(from, `${OLD}s/shared`, 'spoilt');
  await from.delete(`${OLD}a/1/parts`);
  await put(from, 'custody/v1/anchor', 'now');
  const spoilt = await everything(from);
  const report = await restoreInto(run, undefined, MOVES);
  expect(report).toMatchObject({ objects: 3, skipped: 0 });
  const after = await everything(from);
  expect(under(after, OLD, OTHER, 'custody/')).toEqual(spoilt);
  expect(under(after, NEW)).toEqual({
    [`${NEW}s/shared`]: before[`${OLD}s/shared`],
    [`${NEW}a/2/deep/er`]: before[`${OLD}a/1/deep/er`],
    [`${NEW}a/2/parts`]: before[`${OLD}a/1/parts`],
  });
  // If it is repeated it restores nothing, whatever its tenant has done since; and no copy contains it.
  await from.delete(`${NEW}s/shared`);
  expect(await restoreInto(run, undefined, MOVES)).toMatchObject({ objects: 3, skipped: 3 });
  expect(await keysOf(from, `${NEW}s/`)).toEqual([]);
  await copy({ ...run, clock: steps(new Date(Date.now() + 60_000)) });
  const target = servers.bucket();
  await restore(await runOf(servers, target.s3, to), { at: undefined, makesBucket: false });
  expect((await keysOf(target.s3)).filter((key) => key.startsWith('restore/'))).toEqual([]);
});

test('a prefix that is not empty is refused, and nothing is written', async () => {
  const { from, run } = await used();
  await put(from, `${NEW}a/2/mine`, 'mine');
  const before = await everything(from);
  await expect(restoreInto(run, undefined, MOVES)).rejects.toThrow(/has 1 objects .* not written over/);
  expect(await everything(from)).toEqual(before);
});

describe('killed at any write', () => {
  test.each(['before', 'after'] as const)(
    '%s it was done, it continues from the points that it began with',
    async (when) => {
      for (let write = 1; ; write += 1) {
        const { from, to, run } = await used();
        const expected = under(await everything(from), `${OLD}s/`, `${OLD}a/1/`);
        const kill = new Kill(write, when);
        const cut = await runOf(servers, kill.over(from), to, { atOnce: 2 });
        await restoreInto(cut, undefined, MOVES).catch(() => undefined);
        const isBegun = (await keysOf(from)).some((key) => key.startsWith('restore/'));
        // In the meantime the Capsule continues, and so does its backup.
        await put(from, `${OLD}s/shared`, 'later');
        const later = steps(new Date(Date.now() + 60_000));
        await copy({ ...run, clock: later });
        expect((await keysOf(to, 'home/bucket/points/')).length).toBe(2);
        if (isBegun) {
          await expect(restoreInto(run, new Date(0), MOVES)).rejects.toThrow(
            /was (begun|done): give that time again/,
          );
          await restoreInto(run, undefined, MOVES);
        } else if (kill.isDead && (await keysOf(from, NEW)).length === 0) {
          // It had not begun.
          expect(write).toBe(1);
          continue;
        }
        const found = under(await everything(from), NEW);
        expect(Object.values(found)).toEqual(expect.arrayContaining(Object.values(expected)));
        expect(Object.keys(found)).toHaveLength(3);
        if (!kill.isDead) break;
      }
    },
  );
});

describe('the command', () => {
  const asked = async (...args: string[]) => {
    const { names } = await used();
    return command(servers, names, ['restore', ...args]);
  };

  test('accepts prefixes in pairs', async () => {
    const { code, out } = await asked(
      '--prefix',
      `${OLD}s/`,
      '--to',
      `${NEW}s/`,
      '--prefix',
      `${OLD}a/1/`,
      '--to',
      `${NEW}a/2/`,
    );
    expect([code, JSON.parse(out[0]!)]).toEqual([
      0,
      expect.objectContaining({ command: 'restore', objects: 3 }),
    ]);
  });

  test.each<[string, string[], RegExp]>([
    ['of what is no Capsule’s', ['--prefix', 'custody/v1/', '--to', `${NEW}s/`], /prefixes of Capsules/],
    ['that are not whole names', ['--prefix', `${OLD}s`, '--to', `${NEW}s/`], /prefixes of Capsules/],
    ['without a place to go to', ['--prefix', `${OLD}s/`], /usage:/],
    [
      'of which one lies in another',
      ['--prefix', OLD, '--to', NEW, '--prefix', `${OLD}s/`, '--to', `${OTHER}s/`],
      /begins with another/,
    ],
  ])('refuses prefixes %s', async (_, args, says) => {
    const { code, error } = await asked(...args);
    expect([code, error]).toEqual([1, expect.stringMatching(says)]);
  });
});
