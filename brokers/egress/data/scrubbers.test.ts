import { expect, it } from 'vitest';
import type { Slot } from '../core/slot.ts';
import { Scrubbers } from './scrubbers.ts';

const slot: Slot = { kind: 'header', name: 'x-api-key' };
const about = (capsule: string, envelope: string) => ({ owner: { capsule }, envelope, slot });
const value = (index: number) => `sk_live_4eC39HqLyjWDarjtT1zdp${index}`;

it('requests with one value share what was prepared for it, and another value has its own', () => {
  const scrubbers = new Scrubbers();
  const first = scrubbers.of(about('home', 'k1:a'), value(1));
  expect(scrubbers.of(about('home', 'k1:a'), value(1))).toBe(first);
  expect(scrubbers.of(about('home', 'k1:b'), value(2))).not.toBe(first);
});

it('of a Capsule that has more than its share those go that were not used for longest, and nobody else’s', () => {
  const each = new Scrubbers().of(about('home', 'k1:a'), value(1)).bytes;
  const scrubbers = new Scrubbers({ capsuleBytes: 3.5 * each, bytes: 100 * each });
  const other = scrubbers.of(about('other', 'k1:other'), value(0));
  const first = scrubbers.of(about('home', 'k1:0'), value(0));
  for (let index = 1; index < 20; index += 1) {
    scrubbers.of(about('home', `k1:${index}`), value(index % 10));
    if (index < 3) expect(scrubbers.of(about('home', 'k1:0'), value(0))).toBe(first);
    expect(scrubbers.bytes).toBeLessThanOrEqual(5 * each);
  }
  expect(scrubbers.of(about('other', 'k1:other'), value(0))).toBe(other);
  expect(scrubbers.of(about('home', 'k1:0'), value(0))).not.toBe(first);
});

it('all Capsules together have no more than there is', () => {
  const each = new Scrubbers().of(about('home', 'k1:a'), value(1)).bytes;
  const scrubbers = new Scrubbers({ bytes: 10.5 * each });
  for (let index = 0; index < 50; index += 1) scrubbers.of(about(`c${index}`, `k1:${index}`), value(1));
  expect(scrubbers.bytes).toBeLessThanOrEqual(10.5 * each);
});

it('a Capsule that has too many made waits, and no other does', () => {
  let now = 0;
  const scrubbers = new Scrubbers({ burstBytes: 20_000, bytesPerSecond: 10_000 }, () => now);
  let envelopes = 0;
  const made = () => {
    let count = 0;
    for (; count < 100; count += 1)
      try {
        envelopes += 1;
        scrubbers.of(about('home', `k1:${envelopes}`), value(1));
      } catch (error) {
        expect(error).toMatchObject({ code: 'rate_limited' });
        expect((error as { retryAfter: number }).retryAfter).toBeGreaterThanOrEqual(1);
        break;
      }
    return count;
  };
  const atOnce = made();
  expect(atOnce).toBeGreaterThanOrEqual(1);
  expect(atOnce).toBeLessThan(10);
  expect(made()).toBe(0);
  scrubbers.of(about('other', 'k1:other'), value(1));
  now += 10_000;
  expect(made()).toBe(atOnce);
});

it('what nobody has used for a while is forgotten', async () => {
  let now = 0;
  const scrubbers = new Scrubbers({ idleMs: 20 }, () => now);
  scrubbers.of(about('home', 'k1:a'), value(1));
  now = 15;
  scrubbers.of(about('home', 'k1:b'), value(2));
  const kept = scrubbers.bytes;
  now = 30;
  while (scrubbers.bytes === kept) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(scrubbers.bytes).toBeGreaterThan(0);
  now = 60;
  while (scrubbers.bytes > 0) await new Promise((resolve) => setTimeout(resolve, 5));
});
