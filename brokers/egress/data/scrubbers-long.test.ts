import { Turns } from '@space/broker-kit';
import { expect, it } from 'vitest';
import type { Slot } from '../core/slot.ts';
import { Scrubbers } from './scrubbers.ts';

/** Values so long that their tables are compiled in several slices, which takes some seconds; the rest is in `scrubbers.test.ts`. */

const slot: Slot = { kind: 'header', name: 'x-api-key' };
const about = (capsule: string, envelope: string) => ({ owner: { capsule }, envelope, slot });
const value = (index: number) => () => `sk_live_4eC39HqLyjWDarjtT1zdp${index}`;
const turns = new Turns();
/** Costs most: every form of it is a text of its own. */
const long = (index: number) => () => `${index}${'"<&\'>'.repeat(800)}`;

it('a long value is prepared in slices, each in the turn of its Capsule, and a usual one of another at once', async () => {
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

it('a value that cannot be decrypted, or is one too many, does not block the queue', async () => {
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
