import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { holdWrites } from '../testing/held-writes.ts';
import { copy } from './copy.ts';
import { currentState } from './copy-object.ts';
import { labelOf } from './entry.ts';
import { expire } from './expire.ts';
import { writeHeadLast } from './head-last.ts';
import { restore } from './restore.ts';
import { restoreInto } from './restore-into.ts';
import type { Clock } from './retrying.ts';
import { COMPLETIONS } from './run.ts';
import { createSealer } from './sealer.ts';
import {
  everything,
  keysOf,
  PREFIX,
  random,
  runOf,
  type Servers,
  startServers,
  steps,
} from './testing/buckets.ts';

/**
 * Completions that the S3 server does not survive. versitygw has renamed the upload then, lists it no more, and says of a further
 * completion that it was successful.
 */

const MIB = 1024 * 1024;
const DAY_MS = 86_400_000;

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

/** What the S3 server has of uploads. */
function onDisk(bucket: string): readonly string[] {
  const directory = join(servers.s3.directory, bucket, '.sgwtmp', 'multipart');
  return existsSync(directory) ? readdirSync(directory, { recursive: true }).map(String) : [];
}

/** Kills the server when a completion has come to where it is held. */
async function killedWhileHeld(bucket: string, letGo: () => void): Promise<void> {
  try {
    await eventually(() => onDisk(bucket).some((name) => name.endsWith('.inprogress')), {
      what: 'a running completion',
    });
    await servers.s3.kill();
  } finally {
    letGo();
  }
}

/** Kills the server during the completion of an upload to the key, which `act` causes; `act` ends before the server is back. */
async function killedDuring(bucket: string, key: string, act: () => Promise<unknown>): Promise<void> {
  const letGo = await holdWrites(servers.s3, key, bucket);
  const acting = act().then(
    () => 'done',
    () => 'failed',
  );
  await killedWhileHeld(bucket, letGo);
  expect(await acting).toBe('failed');
  await servers.s3.start();
  expect(onDisk(bucket)).not.toEqual([]);
}

async function withLarge() {
  const from = servers.bucket();
  const large = 'c/large';
  const id = await from.s3.createUpload(large);
  const parts: { readonly number: number; readonly etag: string }[] = [];
  for (const number of [1, 2])
    parts.push({ number, ...(await from.s3.putPart(large, id, number, random(9 * MIB))) });
  await from.s3.completeUpload(large, id, parts);
  return { from, large };
}

test('nothing stays of a content for more than a day', async () => {
  const { from, large } = await withLarge();
  const to = servers.bucket();
  const clock = steps();
  const run = await runOf(servers, from.s3, to.s3, { clock });
  const state = await currentState(run, large);
  if (state === undefined) throw new Error('no object');
  const content = run.vault.nameOf(`0\n${labelOf(run.space, state).toString()}`);
  await killedDuring(to.name, `${PREFIX}/bucket/objects/${content}`, () => copy(run));
  await copy(run);
  await expire(run, 14);
  expect(onDisk(to.name)).not.toEqual([]);
  clock.set(new Date(Date.now() + 2 * DAY_MS));
  expect(await expire(run, 14)).toMatchObject({ uploads: 1 });
  expect(onDisk(to.name)).toEqual([]);
  expect(await keysOf(to.s3, `${PREFIX}/bucket/completions/`)).toEqual([]);
});

test('nothing stays of an object when its restore is done', async () => {
  const { from, large } = await withLarge();
  const [to, target] = [servers.bucket().s3, servers.bucket()];
  await copy(await runOf(servers, from.s3, to));
  const run = await runOf(servers, target.s3, to);
  const again = () => restore(run, { at: undefined, makesBucket: false });
  await killedDuring(target.name, large, again);
  expect(await keysOf(target.s3, COMPLETIONS)).toHaveLength(1);
  await again();
  expect(await everything(target.s3)).toEqual(await everything(from.s3));
  expect(onDisk(target.name)).toEqual([]);
});

test('nothing stays of an object when its restore under another prefix is done', async () => {
  const { from } = await withLarge();
  const [to, target] = [servers.bucket().s3, servers.bucket()];
  await copy(await runOf(servers, from.s3, to));
  const run = await runOf(servers, target.s3, to);
  const again = () => restoreInto(run, undefined, [{ from: 'c/', to: 'd/' }]);
  await killedDuring(target.name, 'd/large', again);
  await again();
  expect(await keysOf(target.s3, 'd/')).toEqual(['d/large']);
  expect(await keysOf(target.s3, COMPLETIONS)).toEqual([]);
  expect(onDisk(target.name)).toEqual([]);
});

test.each([
  ['a new object', false],
  ['an object in the place of another', true],
])('%s that is written head last is there when it is said to be', async (_, isThere) => {
  const { name, s3 } = servers.bucket();
  const sealer = await createSealer(servers.identity);
  if (isThere) await s3.put('point', Buffer.from('another'));
  const { promise: isBack, resolve: back } = Promise.withResolvers<void>();
  const clock: Clock = { ...steps(), pause: () => isBack };
  const letGo = await holdWrites(servers.s3, 'point', name);
  async function* rest() {
    for (let i = 0; i < 17; i += 1) yield random(MIB);
  }
  const signal = new AbortController().signal;
  const writing = writeHeadLast({ s3, clock, signal }, sealer, {
    ...{ key: 'point', headBytes: 0, head: async () => new Uint8Array() },
    ...{ rest: rest(), records: 'completions/' },
  });
  await killedWhileHeld(name, letGo);
  await servers.s3.start();
  back();
  await writing;
  const { headers } = await s3.head('point');
  expect(headers['content-length']).toBe(String(sealer.sealedLength(17 * MIB)));
  expect(onDisk(name)).toEqual([]);
  expect(await keysOf(s3, 'completions/')).toEqual([]);
});
