import { Turns } from '@space/broker-kit';
import { expect, it } from 'vitest';
import type { Slot } from '../core/slot.ts';
import { Scrubbers } from './scrubbers.ts';

const slot: Slot = { kind: 'header', name: 'x-api-key' };
const about = (capsule: string, envelope: string) => ({ owner: { capsule }, envelope, slot });
const value = (index: number) => () => `sk_live_4eC39HqLyjWDarjtT1zdp${index}`;
const turns = new Turns();
/** Costs most: every form of it is a text of its own. */
const long = (index: number) => () => `${index}${'"<&\'>'.repeat(800)}`;

it('requests with one value share what was prepared for it, and another value has its own', async () => {
  const scrubbers = new Scrubbers(turns);
  const first = await scrubbers.of(about('home', 'k1:a'), value(1));
  expect(await scrubbers.of(about('home', 'k1:a'), value(1))).toBe(first);
  expect(await scrubbers.of(about('home', 'k1:b'), value(2))).not.toBe(first);
});

it('of a Capsule that has more than its share those go that were not used for longest, and nobody else’s', async () => {
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

it('all Capsules together have no more than there is', async () => {
  const { bytes: each } = await new Scrubbers(turns).of(about('home', 'k1:a'), value(1));
  const scrubbers = new Scrubbers(turns, { bytes: 10.5 * each });
  for (let index = 0; index < 50; index += 1) await scrubbers.of(about(`c${index}`, `k1:${index}`), value(1));
  expect(scrubbers.bytes).toBeLessThanOrEqual(10.5 * each);
});

it('a Capsule that has too many made waits, and no other does', async () => {
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

it('what nobody has used for a while is forgotten', async () => {
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

it('a long value is made in slices, each in the turn of its Capsule, and a usual one of another at once', async () => {
  const waiting: (() => void)[] = [];
  const held = {
    run: <T>(capsule: string, act: () => T) => {
      expect(capsule).toBe('home');
      return new Promise<T>((resolve) => waiting.push(() => resolve(act())));
    },
  };
  const scrubbers = new Scrubbers(held);
  let done = false;
  const made = scrubbers.of(about('home', 'k1:long'), long(0)).finally(() => {
    done = true;
  });
  const again = scrubbers.of(about('home', 'k1:long'), long(0));
  const next = scrubbers.of(about('home', 'k1:next'), long(1));
  let slices = 0;
  while (!done) {
    await new Promise((resolve) => setImmediate(resolve));
    // One value after the other: they take memory while they are made.
    expect(waiting.length).toBeLessThanOrEqual(1);
    waiting.shift()?.();
    slices += 1;
    if (slices > 10) continue;
    const usual = await scrubbers.of(about('other', `k1:${slices}`), value(1));
    expect(usual.text(value(1)())).toBe('*'.repeat(value(1)().length));
  }
  expect(slices).toBeGreaterThan(20);
  expect(await again).toBe(await made);
  expect((await made).text(`x ${long(0)()}`)).toBe(`x ${'*'.repeat(long(0)().length)}`);
  const pump = setInterval(() => waiting.shift()?.(), 0);
  expect((await next).text(long(1)())).toBe('*'.repeat(long(1)().length));
  clearInterval(pump);
});

it('a value that cannot be opened, or is one too many, keeps nobody in the line waiting', async () => {
  const scrubbers = new Scrubbers(turns, { burstBytes: 1, bytesPerSecond: 1 });
  const first = scrubbers.of(about('home', 'k1:0'), long(0));
  const second = scrubbers.of(about('home', 'k1:1'), long(1));
  const closed = scrubbers.of(about('third', 'k1:2'), () => {
    throw new Error('closed');
  });
  const third = scrubbers.of(about('other', 'k1:3'), long(3));
  await expect(closed).rejects.toThrow('closed');
  await first;
  await expect(second).rejects.toMatchObject({ code: 'rate_limited' });
  expect((await third).bytes).toBeGreaterThan(0);
});
