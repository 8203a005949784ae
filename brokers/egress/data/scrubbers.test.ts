import { Turns } from '@space/broker-kit';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { prepareScrubber } from '../core/scrub.ts';
import type { Slot } from '../core/slot.ts';
import { Scrubbers } from './scrubbers.ts';

const slot: Slot = { kind: 'header', name: 'x-api-key' };
const about = (capsule: string, envelope: string) => ({ owner: { capsule }, envelope, slot });
const value = (index: number) => () => `sk_live_4eC39HqLyjWDarjtT1zdp${index}`;
const turns = new Turns();

it('requests with one value share its tables, and another value has its own', async () => {
  const scrubbers = new Scrubbers(turns);
  const first = await scrubbers.of(about('home', 'k1:a'), value(1));
  expect(await scrubbers.of(about('home', 'k1:a'), value(1))).toBe(first);
  expect(await scrubbers.of(about('home', 'k1:b'), value(2))).not.toBe(first);
});

it('a Capsule with more than its share loses its least recently used tables, and no other Capsule does', async () => {
  const { bytes: each } = await new Scrubbers(turns).of(about('home', 'k1:a'), value(1));
  const scrubbers = new Scrubbers(turns, { capsuleBytes: 3.5 * each, bytes: 100 * each });
  const other = await scrubbers.of(about('other', 'k1:other'), value(0));
  const first = await scrubbers.of(about('home', 'k1:0'), value(0));
  for (let index = 1; index < 20; index += 1) {
    scrubbers.of(about('home', `k1:${index}`), value(index % 10));
    if (index < 3) expect(await scrubbers.of(about('home', 'k1:0'), value(0))).toBe(first);
    expect(scrubbers.bytes).toBeLessThanOrEqual(5 * each);
  }
  expect(await scrubbers.of(about('other', 'k1:other'), value(0))).toBe(other);
  expect(await scrubbers.of(about('home', 'k1:0'), value(0))).not.toBe(first);
});

it('all Capsules together have at most the total', async () => {
  const { bytes: each } = await new Scrubbers(turns).of(about('home', 'k1:a'), value(1));
  const scrubbers = new Scrubbers(turns, { bytes: 10.5 * each });
  for (let index = 0; index < 50; index += 1) await scrubbers.of(about(`c${index}`, `k1:${index}`), value(1));
  expect(scrubbers.bytes).toBeLessThanOrEqual(10.5 * each);
});

it('a Capsule that requests too many tables waits, and no other does', async () => {
  let now = 0;
  const scrubbers = new Scrubbers(turns, { burstBytes: 20_000, bytesPerSecond: 10_000 }, () => now);
  let envelopes = 0;
  const made = async () => {
    let count = 0;
    for (; count < 100; count += 1)
      try {
        envelopes += 1;
        await scrubbers.of(about('home', `k1:${envelopes}`), value(1));
      } catch (error) {
        expect(error).toMatchObject({ code: 'rate_limited' });
        expect((error as { retryAfter: number }).retryAfter).toBeGreaterThanOrEqual(1);
        break;
      }
    return count;
  };
  const atOnce = await made();
  expect(atOnce).toBeGreaterThanOrEqual(1);
  expect(atOnce).toBeLessThan(10);
  expect(await made()).toBe(0);
  await scrubbers.of(about('other', 'k1:other'), value(1));
  now += 10_000;
  expect(await made()).toBe(atOnce);
});

it('tables that were not used for a while are removed', async () => {
  let now = 0;
  const scrubbers = new Scrubbers(turns, { idleMs: 20 }, () => now);
  await scrubbers.of(about('home', 'k1:a'), value(1));
  now = 15;
  await scrubbers.of(about('home', 'k1:b'), value(2));
  const kept = scrubbers.bytes;
  now = 30;
  while (scrubbers.bytes === kept) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(scrubbers.bytes).toBeGreaterThan(0);
  now = 60;
  while (scrubbers.bytes > 0) await new Promise((resolve) => setTimeout(resolve, 5));
});

describe('tables', () => {
  const MIB = 1024 * 1024;
  let now: number;
  beforeEach(() => {
    now = 1_000_000;
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  });
  afterEach(() => vi.useRealTimers());

  /** Compiles nothing; a value is the size of its tables. */
  const prepare = function* ([size]: readonly string[]) {
    return { bytes: Number(size), text: (text: string) => text, body: () => expect.fail() };
  } as typeof prepareScrubber;
  const made = (limits: ConstructorParameters<typeof Scrubbers>[1] = {}) => {
    const scrubbers = new Scrubbers(turns, limits, () => now, prepare);
    return {
      scrubbers,
      of: (capsule: string, name: string, bytes: number) =>
        scrubbers.of(about(capsule, name), () => String(bytes)),
    };
  };
  /** Advances the time to the next check for unused tables. */
  const pass = (ms: number) => {
    now += ms;
    vi.advanceTimersByTime(ms);
  };

  it('of a Capsule are at most 12 MiB, of all Capsules 48 MiB, and the most recently used stay', async () => {
    const { scrubbers, of } = made();
    const first = await of('c0', 'c0:first', 6 * MIB);
    for (const capsule of ['c0', 'c1', 'c2', 'c3']) {
      await of(capsule, `${capsule}:first`, 6 * MIB);
      await of(capsule, `${capsule}:second`, 6 * MIB);
    }
    expect(scrubbers.bytes).toBe(48 * MIB);
    expect(await of('c0', 'c0:first', 6 * MIB)).toBe(first);
    await of('c4', 'c4:first', MIB);
    // The second table of c0 was removed, since the first was used later.
    expect(scrubbers.bytes).toBe(43 * MIB);
    expect(await of('c0', 'c0:first', 6 * MIB)).toBe(first);
  });

  it('are compiled for 12 MiB at once and half a MiB each second, and a refusal has Retry-After', async () => {
    const { of } = made();
    await of('home', 'a', 6 * MIB);
    await of('home', 'b', 6 * MIB);
    await expect(of('home', 'c', 1)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 1 });
    now += 2_000;
    await of('home', 'c', 6 * MIB);
    await expect(of('home', 'd', 1)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 11 });
    now += 10_000;
    await expect(of('home', 'd', 1)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 1 });
    now += 1_000;
    await of('home', 'd', 1);
  });

  it('that were not used for as long as that are removed, with their count', async () => {
    const { scrubbers, of } = made({ burstBytes: 100, bytesPerSecond: 10, idleMs: 60_000 });
    await of('home', 'a', 600);
    expect(vi.getTimerCount()).toBe(1);
    pass(60_000);
    // Its budget is full again at this moment.
    expect([scrubbers.bytes, vi.getTimerCount()]).toEqual([0, 0]);
  });

  it('that are removed leave the debt of their compilation', async () => {
    const { scrubbers, of } = made({ burstBytes: 100, bytesPerSecond: 10, idleMs: 60_000 });
    await of('home', 'a', 1_000);
    pass(60_000);
    expect([scrubbers.bytes, vi.getTimerCount()]).toEqual([0, 1]);
    await expect(of('home', 'b', 1)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 31 });
    pass(60_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that are in use stay, and still count for their Capsule', async () => {
    const { scrubbers, of } = made({ capsuleBytes: 15, burstBytes: 100, bytesPerSecond: 10, idleMs: 60_000 });
    const kept = await of('home', 'a', 10);
    pass(30_000);
    expect(await of('home', 'a', 10)).toBe(kept);
    pass(30_000);
    expect(await of('home', 'a', 10)).toBe(kept);
    await of('home', 'b', 10);
    expect(scrubbers.bytes).toBe(10);
    // Dropped tables no longer count.
    await of('home', 'c', 5);
    expect(scrubbers.bytes).toBe(15);
  });
});
