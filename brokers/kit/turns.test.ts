import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Turns } from './turns.ts';

/** A processor whose time is what the work says that it took. */
function processor() {
  const time = { ms: 0 };
  const turns = new Turns({
    perSecondMs: 100,
    burstMs: 50,
    used: () => time.ms,
    now: () => time.ms,
  });
  const work = (key: string, ms: number, done: () => void = () => undefined) =>
    turns.run(key, () => {
      time.ms += ms;
      done();
    });
  return { time, turns, work };
}

describe('turns of the processor', () => {
  it('a key with a long queue delays only its own documents', async () => {
    const { work } = processor();
    const order: string[] = [];
    const all = [1, 2, 3, 4].map((n) => work('greedy', 1, () => order.push(`greedy ${n}`)));
    all.push(work('modest', 1, () => order.push('modest')));
    await Promise.all(all);
    expect(order.indexOf('modest')).toBe(1);
  });

  it('lets all other work of the process run between two long pieces', async () => {
    const { work } = processor();
    let between = 0;
    const count = () => {
      between += 1;
      if (between < 100) setImmediate(count);
    };
    setImmediate(count);
    const seen: number[] = [];
    await Promise.all([1, 2, 3].map(() => work('a', 5, () => seen.push(between))));
    expect(new Set(seen).size).toBe(3);
  });

  it('ends a slice in time also where the kernel tells the processor’s time in long steps', async () => {
    let ms = 0;
    const turns = new Turns({ sliceMs: 0.5, used: () => Math.floor(ms / 4) * 4, now: () => ms });
    let pieces = 0;
    let rounds = 0;
    let most = 0;
    const all = Array.from({ length: 40 }, () =>
      turns.run('a', () => {
        ms += 0.2;
        pieces += 1;
      }),
    );
    while (turns.waiting > 0) {
      const before = pieces;
      await new Promise((resolve) => setImmediate(resolve));
      rounds += 1;
      most = Math.max(most, pieces - before);
    }
    await Promise.all(all);
    expect(most).toBe(3);
    expect(rounds).toBeGreaterThanOrEqual(40 / 3);
  });

  it('ends a slice with a piece that has used its time before', async () => {
    const turns = new Turns({ sliceMs: 0.5, now: () => 0 });
    const order: string[] = [];
    const work = (key: string, owedMs: number) => turns.run(key, () => order.push(key), owedMs);
    const all = [work('mean', 7), work('mean', 7), work('quiet', 0.1), work('quiet', 0.1)];
    const rounds: string[] = [];
    while (turns.waiting > 0) {
      await new Promise((resolve) => setImmediate(resolve));
      rounds.push(order.splice(0).join(' '));
    }
    await Promise.all(all);
    expect(rounds).toEqual(['mean', 'quiet mean', 'quiet']);
  });

  it('refuses a key that has used up its share until it is refilled, and lets others continue', async () => {
    const { work, time } = processor();
    await work('greedy', 150);
    const refused = { code: 'rate_limited', retryAfter: 1 };
    await expect(work('greedy', 1)).rejects.toMatchObject(refused);
    await work('modest', 1);
    time.ms += 1_200;
    await work('greedy', 1);
  });

  it('refuses no key without shares', async () => {
    let ms = 0;
    const turns = new Turns({ used: () => ms, now: () => ms });
    for (let n = 0; n < 10; n += 1)
      await turns.run('greedy', () => {
        ms += 1_000_000;
      });
  });

  it('ends a document in the middle if another of the same key uses up the share', async () => {
    const { work } = processor();
    const pieces = await Promise.allSettled(Array.from({ length: 10 }, () => work('greedy', 10)));
    expect(pieces.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0);
    expect(pieces.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThanOrEqual(5);
  });

  it('runs every piece once and in the order of its key, and no key waits for more than one piece of each other', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 40 }), async (keys) => {
        const turns = new Turns({ perSecondMs: 1, burstMs: 1_000_000 });
        const order: string[] = [];
        await Promise.all(keys.map((key, n) => turns.run(key, () => order.push(`${key}${n}`))));
        expect(order).toHaveLength(keys.length);
        for (const key of ['a', 'b', 'c']) {
          const own = keys.flatMap((one, n) => (one === key ? [`${key}${n}`] : []));
          expect(order.filter((name) => name.startsWith(key))).toEqual(own);
          const first = own[0] === undefined ? 0 : order.indexOf(own[0]);
          expect(first).toBeLessThan(3);
        }
        expect(turns.waiting).toBe(0);
      }),
      { numRuns: 30 },
    );
  });
});
