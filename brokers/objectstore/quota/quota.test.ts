import { createLogger } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { createQuota, type Quota } from './allowance.ts';
import { CapsuleBlock, type Reservation } from './capsule-block.ts';
import {
  addDoubt,
  beginCount,
  finishCount,
  lockUsage,
  putBlock,
  shrinkBlock,
  usageOf,
  usedBytes,
} from './rows.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

let fixture: Fixture;
let prefixes = 0;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

const newPrefix = () => {
  prefixes += 1;
  return `c/${prefixes.toString(16).padStart(40, '0')}/`;
};

const silent = createLogger({ service: 'test', level: 'silent' });
const start = (options: { now?: () => number; recount?: () => Promise<boolean> } = {}): Quota =>
  createQuota({
    registry: fixture.broker.context.connections,
    log: silent,
    recount: options.recount ?? (async () => false),
    ...(options.now === undefined ? {} : { now: options.now }),
  });

/** What the registry says of a place: all that counts, and the part that replicas hold. */
async function sums(capsulePrefix: string): Promise<{ readonly used: number; readonly blocks: number }> {
  const [row] = await fixture.registry<{ used: number; blocks: number; doubt: number }>(
    `SELECT coalesce((SELECT counted + written FROM broker.object_usage WHERE place = $1), 0)::float8 AS used,
            coalesce((SELECT sum(bytes) FROM broker.object_block WHERE place = $1), 0)::float8 AS blocks,
            coalesce((SELECT sum(bytes) FROM broker.object_doubt WHERE place = $1), 0)::float8 AS doubt`,
    [capsulePrefix],
  );
  const { used = 0, blocks = 0, doubt = 0 } = row ?? {};
  return { used: used + blocks + doubt, blocks };
}

test('a block reserves the rest of a quota to the last byte, and fails if a byte is missing', async () => {
  const registry = fixture.broker.context.connections;
  const block = (capsulePrefix: string) =>
    new CapsuleBlock({ registry, replica: 'r', capsulePrefix, onDoubted: () => {}, now: () => 0 });
  const [all, more] = [block(newPrefix()), block(newPrefix())];
  expect([await all.take(1_000, 1_000), all.bytes, all.reserve(1_000) !== undefined]).toEqual([
    true,
    1_000,
    true,
  ]);
  expect([await all.take(1_000, 1), all.reserve(1)]).toEqual([false, undefined]);
  expect([await more.take(1_000, 1_001), more.bytes]).toEqual([false, 0]);
});

test('two replicas never write more than the quota, and everything is counted', async () => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('reserve' as const),
      who: fc.nat(1),
      bytes: fc.integer({ min: 0, max: 300 * KIB }),
    }),
    fc.record({
      kind: fc.constantFrom('settle' as const, 'release' as const, 'doubt' as const),
      which: fc.nat(20),
    }),
    fc.record({ kind: fc.constant('tick' as const), who: fc.nat(1) }),
    fc.record({ kind: fc.constant('crash' as const), who: fc.nat(1) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const capsulePrefix = newPrefix();
      const quotaBytes = MIB;
      const replicas = [start(), start()];
      const holds: { readonly who: Quota | undefined; readonly hold: Reservation; readonly bytes: number }[] =
        [];
      let stored = 0;
      for (const one of steps) {
        if (one.kind === 'reserve') {
          const who = replicas[one.who];
          const hold = await who?.reserve({ capsulePrefix, quotaBytes }, one.bytes).catch(() => undefined);
          if (hold !== undefined) holds.push({ who, hold, bytes: one.bytes });
        } else if (one.kind === 'tick') {
          await replicas[one.who]?.tick();
        } else if (one.kind === 'crash') {
          // It reports nothing; its streams are interrupted, and some of its writes were stored.
          const dead = replicas[one.who];
          replicas[one.who] = start();
          for (let i = holds.length - 1; i >= 0; i -= 1) if (holds[i]?.who === dead) holds.splice(i, 1);
        } else if (holds.length > 0) {
          const [taken] = holds.splice(one.which % holds.length, 1);
          if (one.kind === 'release') taken?.hold.release();
          else {
            if (one.kind === 'settle') taken?.hold.settle();
            else taken?.hold.doubt(3_600);
            stored += taken?.bytes ?? 0;
          }
        }
        const inFlight = holds.reduce((sum, { bytes }) => sum + bytes, 0);
        const { used } = await sums(capsulePrefix);
        expect(used).toBeLessThanOrEqual(quotaBytes);
        expect(used).toBeGreaterThanOrEqual(stored + inFlight);
      }
      const crashed = steps.some(({ kind }) => kind === 'crash');
      for (const { hold } of holds) hold.release();
      for (const replica of replicas) await replica.close();
      const end = await sums(capsulePrefix);
      if (!crashed) expect(end).toEqual({ used: stored, blocks: 0 });
    }),
    { numRuns: 25 },
  );
});

test('of many writes at once only those that fit are accepted', async () => {
  const capsulePrefix = newPrefix();
  const replicas = [start(), start()];
  const writes = Array.from({ length: 64 }, (_, i) =>
    replicas[i % 2]?.reserve({ capsulePrefix, quotaBytes: MIB }, 100 * KIB),
  );
  const outcomes = await Promise.allSettled(writes);
  const got = outcomes.filter(({ status }) => status === 'fulfilled').length;
  expect(got).toBeGreaterThan(0);
  expect(got * 100 * KIB).toBeLessThanOrEqual(MIB);
  expect((await sums(capsulePrefix)).used).toBeLessThanOrEqual(MIB);
});

test('bytes that one replica takes over from another are reserved only by one of them', async () => {
  const { connections } = fixture.broker.context;
  const capsule = { capsulePrefix: newPrefix(), quotaBytes: 100 };
  const thieves: Promise<Reservation>[] = [];
  const quota = createQuota({
    log: silent,
    recount: async () => false,
    registry: {
      lookup: connections.lookup,
      transaction: async (work) => {
        const result = await connections.transaction(work);
        // One after the other, at every moment until the caller of the transaction continues.
        let next = Promise.resolve();
        for (let i = 0; thieves.length === 0 && i < 32; i += 1)
          next = next.then(() => {
            const thief = quota.reserve(capsule, 100);
            thief.catch(() => undefined);
            thieves.push(thief);
          });
        return result;
      },
    },
  });
  const first = quota.reserve(capsule, 100);
  first.catch(() => undefined);
  await eventually(async () => thieves.length === 32, { what: 'all of them' });
  const outcomes = await Promise.allSettled([first, ...thieves]);
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
});

describe('the rows', () => {
  const inRows = <T>(work: (session: Session) => Promise<T>) =>
    fixture.broker.context.connections.transaction(work);

  test('a block has a row while it holds something, and a removed row is not created again by what it still held', async () => {
    const capsulePrefix = newPrefix();
    await inRows((session) => lockUsage(session, capsulePrefix));
    await inRows((session) => putBlock(session, capsulePrefix, 'one', 100));
    expect(await inRows((session) => shrinkBlock(session, capsulePrefix, 'one', 70))).toBe(true);
    expect(await sums(capsulePrefix)).toEqual({ used: 70, blocks: 70 });
    expect(await inRows((session) => shrinkBlock(session, capsulePrefix, 'one', 0))).toBe(true);
    for (const bytes of [30, 0])
      expect(await inRows((session) => shrinkBlock(session, capsulePrefix, 'one', bytes))).toBe(false);
    expect((await sums(capsulePrefix)).blocks).toBe(0);
  });

  test('the usage of a Capsule is summed without reading the uploads of others, however many they have', async () => {
    const [mine, other] = [newPrefix(), newPrefix()];
    for (const prefix of [mine, other]) await inRows((session) => lockUsage(session, prefix));
    await fixture.registry(
      `INSERT INTO broker.object_upload (id, place, room, key, upstream_id, bytes)
       SELECT md5(i::text || p.place), p.place, p.place, 'k', 'u', 1
       FROM (VALUES ($1, 3), ($2, 20000)) AS p (place, uploads), generate_series(1, p.uploads) AS i`,
      [mine, other],
    );
    await fixture.registry('VACUUM ANALYZE broker.object_upload');
    const read = await inRows(async (session) => {
      expect(await usedBytes(session, mine)).toBe(3);
      expect((await usageOf(session, mine, 1)).open_uploads).toBe(3);
      return session.run<{ whole: number; rows: number }>(
        'what was read',
        `SELECT seq_scan::int AS whole, (seq_tup_read + idx_tup_fetch)::int AS rows
         FROM pg_stat_xact_user_tables WHERE relname = 'object_upload'`,
      );
    });
    expect(read).toEqual([{ whole: 0, rows: expect.toSatisfy((rows: number) => rows < 20) }]);
    await fixture.registry('DELETE FROM broker.object_upload WHERE place IN ($1, $2)', [mine, other]);
  });

  test('of two counts at once the one that ends last changes nothing', async () => {
    const capsulePrefix = newPrefix();
    const [first, second] = [
      await inRows((session) => beginCount(session, capsulePrefix)),
      await inRows((session) => beginCount(session, capsulePrefix)),
    ];
    expect(await inRows((session) => finishCount(session, capsulePrefix, first, 500))).toBe(true);
    expect(await inRows((session) => finishCount(session, capsulePrefix, second, 100))).toBe(false);
    expect((await sums(capsulePrefix)).used).toBe(500);
  });

  test('a count ends no doubt that existed when it began', async () => {
    const capsulePrefix = newPrefix();
    await inRows((session) => lockUsage(session, capsulePrefix));
    await inRows((session) => addDoubt(session, capsulePrefix, 70, 0));
    const begun = await inRows((session) => beginCount(session, capsulePrefix));
    expect(begun.certain).toBe(false);
    await fixture.registry('UPDATE broker.object_doubt SET certain_at = clock_timestamp() WHERE place = $1', [
      capsulePrefix,
    ]);
    expect(await inRows((session) => finishCount(session, capsulePrefix, begun, 0))).toBe(true);
    expect((await sums(capsulePrefix)).used).toBe(70);
    const later = await inRows((session) => beginCount(session, capsulePrefix));
    expect(later.certain).toBe(true);
    expect(await inRows((session) => finishCount(session, capsulePrefix, later, 0))).toBe(true);
    expect((await sums(capsulePrefix)).used).toBe(0);
  });
});

test('the reservations of a dead replica are in doubt, and its late updates change nothing', async () => {
  const capsulePrefix = newPrefix();
  let now = 0;
  const dead = start({ now: () => now });
  const hold = await dead.reserve({ capsulePrefix, quotaBytes: MIB }, 100 * KIB);
  const before = await sums(capsulePrefix);
  expect(before.blocks).toBeGreaterThan(100 * KIB);
  await fixture.registry(
    "UPDATE broker.object_block SET renewed_at = now() - interval '6 minutes' WHERE place = $1",
    [capsulePrefix],
  );
  await start().tick();
  expect(await sums(capsulePrefix)).toEqual({ used: before.used, blocks: 0 });
  hold.settle();
  now += 10_000;
  await dead.tick();
  await dead.close();
  expect(await sums(capsulePrefix)).toEqual({ used: before.used, blocks: 0 });
});

test('a replica that could not renew for long starts again, before others count it as dead', async () => {
  const capsulePrefix = newPrefix();
  let now = 0;
  const one = start({ now: () => now });
  const first = await one.reserve({ capsulePrefix, quotaBytes: MIB }, KIB);
  const [block] = await fixture.registry<{ replica: string }>(
    'SELECT replica FROM broker.object_block WHERE place = $1',
    [capsulePrefix],
  );
  now += 130_000;
  await one.tick();
  const second = await one.reserve({ capsulePrefix, quotaBytes: MIB }, KIB);
  const replicas = await fixture.registry<{ replica: string }>(
    'SELECT replica FROM broker.object_block WHERE place = $1',
    [capsulePrefix],
  );
  expect(replicas.filter(({ replica }) => replica !== block?.replica)).toHaveLength(1);
  first.settle();
  second.settle();
  await one.close();
});

test('a replica that was stopped for hours changes nothing that others have counted since', async () => {
  const capsule = { capsulePrefix: newPrefix(), quotaBytes: MIB };
  let now = 0;
  const stopped = start({ now: () => now });
  (await stopped.reserve(capsule, KIB)).release();
  await fixture.registry(
    "UPDATE broker.object_block SET renewed_at = now() - interval '6 minutes' WHERE place = $1",
    [capsule.capsulePrefix],
  );
  await start().tick();
  await fixture.registry('DELETE FROM broker.object_doubt WHERE place = $1', [capsule.capsulePrefix]);
  now += 3 * 3_600_000;
  // A request is there before the next tick.
  (await stopped.reserve(capsule, KIB)).settle();
  await stopped.tick();
  await stopped.close();
  expect(await sums(capsule.capsulePrefix)).toEqual({ used: KIB, blocks: 0 });
});

describe('an Assistant', () => {
  const put = async (who: Assistant, key: string, bytes: number) =>
    (await who.put(key, Buffer.alloc(bytes))).json?.error?.code ?? 'ok';

  test('may use its whole quota and no more; space that it deletes or overwrites is available again', async () => {
    const one = await newAssistant(fixture.broker, { quota: MIB });
    expect(await put(one, 'a', 600 * KIB)).toBe('ok');
    expect(await put(one, 'b', 600 * KIB)).toBe('quota_exceeded');
    expect(await put(one, 'b', 300 * KIB)).toBe('ok');
    await one.call('DELETE', '/v1/objects/data/a');
    await eventually(async () => (await put(one, 'c', 560 * KIB)) === 'ok', { what: 'the deleted bytes' });
    // An overwrite needs room beside what it replaces, and gives that back.
    for (let i = 0; i < 3; i += 1)
      await eventually(async () => (await put(one, 'b', 110 * KIB)) === 'ok', {
        what: 'the overwritten bytes',
      });
    expect((await one.get('b')).text.length).toBe(110 * KIB);
  });

  test('shares the quota with its Capsule, and with no other', async () => {
    const capsule = await fixture.broker.capsule('pair', { quota_bytes: MIB });
    const [first, second] = await Promise.all(
      ['first', 'second'].map(async (app) =>
        assistant(fixture.broker.dataUrl, await fixture.broker.workload(capsule, 'pair', app)),
      ),
    );
    expect(await put(first!, 'a', 700 * KIB)).toBe('ok');
    expect(await put(second!, 'a', 700 * KIB)).toBe('quota_exceeded');
    expect(await put(await newAssistant(fixture.broker, { quota: MIB }), 'a', 700 * KIB)).toBe('ok');
  });

  test('is charged for copies, and for parts until they are aborted', async () => {
    const one = await newAssistant(fixture.broker, { quota: MIB });
    expect(await put(one, 'a', 600 * KIB)).toBe('ok');
    expect((await one.post('/v1/copies/data', { from: 'a', to: 'b' })).json.error.code).toBe(
      'quota_exceeded',
    );
    const { json } = await one.post('/v1/uploads/data', { key: 'parts' });
    const part = (number: number) =>
      one.call('PUT', `/v1/uploads/data/${json.upload_id}/${number}`, { body: Buffer.alloc(300 * KIB) });
    expect((await part(1)).status).toBe(200);
    expect((await part(2)).json.error.code).toBe('quota_exceeded');
    expect(await put(one, 'c', 300 * KIB)).toBe('quota_exceeded');
    await one.call('DELETE', `/v1/uploads/data/${json.upload_id}`);
    await eventually(async () => (await put(one, 'c', 300 * KIB)) === 'ok', {
      what: 'the bytes of the part',
    });
  });

  test('and its Capsule can read usage and limit', async () => {
    const capsule = await fixture.broker.capsule('reads', { quota_bytes: 2 * MIB });
    const one = assistant(fixture.broker.dataUrl, await fixture.broker.workload(capsule, 'reads', 'app'));
    await one.put('a', Buffer.alloc(MIB));
    await one.post('/v1/uploads/data', { key: 'parts' });
    const { status, json } = await one.call('GET', '/v1/usage');
    expect(status).toBe(200);
    expect(json).toMatchObject({ quota_bytes: 2 * MIB, open_uploads: 1 });
    expect(json.used_bytes).toBeGreaterThan(MIB);
    expect(json.used_bytes).toBeLessThanOrEqual(2 * MIB);
    const { trace_id: _, ...told } = json;
    expect((await capsule.post('/v1/capsules/usage', { capsule_id: 'reads' })).json).toMatchObject(told);
    const other = await fixture.broker.capsule('reads-not');
    expect((await other.post('/v1/capsules/usage', { capsule_id: 'reads' })).status).toBe(403);
    expect((await one.call('GET', '/v1/usage?x=1')).status).toBe(400);
  });

  test('may use its quota to the last byte', async () => {
    const one = await newAssistant(fixture.broker, { quota: 16 * KIB + 10 });
    const { status, headers } = await one.put('a', 'x'.repeat(11));
    expect(status).toBe(507);
    // This is caused by the tenant, and not logged as an error of the Space.
    const told = () => fixture.broker.log.find((line) => line.includes(headers.get('trace-id') ?? 'none'));
    await eventually(async () => told() !== undefined, { what: 'the line of the request' });
    expect(JSON.parse(told()!)).toMatchObject({ level: 'info', code: 'quota_exceeded', status: 507 });
    expect((await one.put('a', 'x'.repeat(10))).status).toBe(200);
  });
});
