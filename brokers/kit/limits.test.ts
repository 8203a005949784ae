import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConcurrencyLimit, RateLimit } from './limits.ts';

describe('the rate limit', () => {
  it('allows a burst, then the rate, and returns how long to wait', () => {
    let now = 0;
    const limit = new RateLimit({ perSecond: 2, burst: 3, now: () => now });
    expect([limit.take('a'), limit.take('a'), limit.take('a')]).toEqual([undefined, undefined, undefined]);
    expect(limit.take('a')).toBe(1);
    expect(limit.take('b')).toBeUndefined();
    now += 500;
    expect(limit.take('a')).toBeUndefined();
    expect(limit.take('a')).toBe(1);
  });

  it('never allows more than burst and rate', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(400), { maxLength: 200 }), (gaps) => {
        let now = 0;
        const limit = new RateLimit({ perSecond: 5, burst: 4, now: () => now });
        let passed = 0;
        for (const gap of gaps) {
          now += gap;
          if (limit.take('key') === undefined) passed += 1;
        }
        expect(passed).toBeLessThanOrEqual(4 + (now / 1000) * 5 + 1e-6);
      }),
    );
  });

  it('stays small under very many keys', () => {
    const limit = new RateLimit({ perSecond: 1, burst: 2, now: () => 0 });
    for (let i = 0; i < 50_000; i += 1) limit.take(`key${i}`);
    expect(limit.take('key49999')).toBeUndefined();
  });
});

describe('the concurrency limit', () => {
  it('runs a limited number at once, queues a limited number in order, and refuses the rest', async () => {
    const limit = new ConcurrencyLimit({ active: 2, queued: 2 });
    const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
    const order: number[] = [];
    const runs = gates.map(({ promise }, i) =>
      limit.run(async () => {
        order.push(i);
        await promise;
        return i;
      }),
    );
    expect(await limit.run(async () => 5)).toBeUndefined();
    expect(order).toEqual([0, 1]);
    gates[1]!.resolve();
    await runs[1];
    expect(order).toEqual([0, 1, 2]);
    for (const { resolve } of gates) resolve();
    expect(await Promise.all(runs)).toEqual([0, 1, 2, 3].map((value) => ({ value })));
    expect(limit.running).toBe(0);
  });

  it('gives the slot of a failed one to the next', async () => {
    const limit = new ConcurrencyLimit({ active: 1, queued: 1 });
    const failing = limit.run(() => Promise.reject(new Error('no')));
    const next = limit.run(async () => 'ran');
    await expect(failing).rejects.toThrow('no');
    expect(await next).toEqual({ value: 'ran' });
    expect(limit.running).toBe(0);
  });
});
