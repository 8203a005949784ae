import { createLogger } from '@space/broker-kit';
import { type Connections, openConnections, serverParser } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTcpProxy, type TcpProxy } from '../../../testing/tcp-proxy.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { CapsuleBlock } from './capsule-block.ts';

/** The registry commits, and the answer is lost: a block must still agree with its row. */

const MIB = 1024 * 1024;
const QUOTA = 1024 * MIB;

let fixture: Fixture;
let line: TcpProxy;
let registry: Connections;
let prefixes = 0;

beforeAll(async () => {
  fixture = await openFixture();
  line = await openTcpProxy(fixture.server);
  const url = new URL(fixture.server.objectStoreUrl);
  url.port = String(line.port);
  const value = serverParser({ url: undefined, setting: 'REGISTRY_DATABASE' }, () => '')(url.href);
  const address = { current: () => value, refresh: async () => undefined, close: () => undefined };
  const log = createLogger({ service: 'test', level: 'silent' });
  registry = openConnections(address, log, { application: 'test', work: 1, lookup: 1 });
});
afterAll(async () => {
  await registry?.close();
  await line?.close();
  await fixture?.close();
});

function newBlock() {
  prefixes += 1;
  const capsulePrefix = `c/${prefixes.toString(16).padStart(40, 'f')}/`;
  const block = new CapsuleBlock({
    registry,
    replica: 'one',
    capsulePrefix,
    onDoubted: () => undefined,
    now: () => performance.now(),
  });
  return { block, capsulePrefix };
}

/** What counts of a Capsule by the registry: in blocks, and beside them. */
async function counted(capsulePrefix: string): Promise<{ blocks: number; rows: number; written: number }> {
  const [row] = await fixture.registry<{ blocks: number; rows: number; written: number }>(
    `SELECT (SELECT coalesce(sum(bytes), 0) FROM broker.object_block WHERE place = $1)::float8 AS blocks,
            (SELECT count(*) FROM broker.object_block WHERE place = $1)::int AS rows,
            coalesce((SELECT written FROM broker.object_usage WHERE place = $1), 0)::float8 AS written`,
    [capsulePrefix],
  );
  return row!;
}

for (const moment of ['before', 'after'] as const) {
  test(`a reserved block is returned although its COMMIT was lost ${moment} the server had it`, async () => {
    const { block, capsulePrefix } = newBlock();
    const lost = line.cutAt('COMMIT', moment, /grow block/);
    await expect(block.take(QUOTA, 500 * MIB)).rejects.toThrow();
    expect(lost()).toBe(true);
    expect(await block.flush({ giveBack: true })).toBe(true);
    expect(await counted(capsulePrefix)).toEqual({ blocks: 0, rows: 0, written: 0 });
    expect(await block.take(QUOTA, 900 * MIB)).toBe(true);
    block.reserve(900 * MIB)?.settle();
    expect(await block.flush({ giveBack: true })).toBe(true);
    expect(await counted(capsulePrefix)).toEqual({ blocks: 0, rows: 0, written: 900 * MIB });
  });

  test(`a reserved block is free for the next caller although its COMMIT was lost ${moment} the server had it`, async () => {
    const { block, capsulePrefix } = newBlock();
    const lost = line.cutAt('COMMIT', moment, /grow block/);
    await expect(block.take(QUOTA, 500 * MIB)).rejects.toThrow();
    expect(lost()).toBe(true);
    expect(await block.take(QUOTA, QUOTA)).toBe(true);
    expect((await counted(capsulePrefix)).blocks).toBe(QUOTA);
  });

  test(`everything written counts although the COMMIT of a returned block was lost ${moment} the server had it`, async () => {
    const { block, capsulePrefix } = newBlock();
    expect(await block.take(QUOTA, 100 * MIB)).toBe(true);
    const lost = line.cutAt('COMMIT', moment, /(shrink|end) block/);
    await expect(block.flush({ giveBack: true })).rejects.toThrow();
    expect(lost()).toBe(true);
    if (block.reserve(50 * MIB) === undefined) await block.take(QUOTA, 50 * MIB);
    const written = block.reserve(50 * MIB);
    written?.settle();
    expect(await block.flush({ giveBack: true })).toBe(true);
    const { blocks, written: told } = await counted(capsulePrefix);
    expect(blocks + told).toBeGreaterThanOrEqual(written === undefined ? 0 : 50 * MIB);
  });

  test(`a part that was moved to its upload counts once in the end although the COMMIT was lost ${moment} the server had it`, async () => {
    const { block, capsulePrefix } = newBlock();
    expect(await block.take(QUOTA, 100 * MIB)).toBe(true);
    const reservation = block.reserve(100 * MIB);
    const lost = line.cutAt('COMMIT', moment, /(shrink|end) block/);
    await expect(reservation?.move()).rejects.toThrow();
    expect(lost()).toBe(true);
    reservation?.doubt(0);
    expect(await block.flush({ giveBack: true })).toBe(true);
    expect((await counted(capsulePrefix)).blocks).toBe(0);
  });
}

test('a Capsule without reservations of this replica has no row that is still renewed', async () => {
  const { block, capsulePrefix } = newBlock();
  expect(await block.take(QUOTA, MIB)).toBe(true);
  expect(await block.flush({ giveBack: true })).toBe(true);
  expect(block.bytes).toBe(0);
  expect(await counted(capsulePrefix)).toEqual({ blocks: 0, rows: 0, written: 0 });
});
