import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Spans } from './spans.ts';

const spansOf = (...all: readonly (readonly [start: number, end: number])[]) => {
  const spans = new Spans();
  for (const [start, end] of all) spans.add(start, end);
  return spans;
};
const taken = (spans: Spans, position: number) => {
  const visited: [number, number][] = [];
  spans.takeTo(position, (start, end) => visited.push([start, end]));
  return visited;
};

describe('ranges', () => {
  it('are empty until one is added, and again when all are taken', () => {
    const spans = new Spans();
    expect([spans.none, taken(spans, 10)]).toEqual([true, []]);
    spans.add(1, 3);
    expect([spans.none, taken(spans, 3), spans.none]).toEqual([false, [[1, 3]], true]);
  });

  it('are joined if they touch, and separate if they do not', () => {
    expect(taken(spansOf([1, 3], [4, 6]), 9)).toEqual([
      [1, 3],
      [4, 6],
    ]);
    expect(taken(spansOf([1, 3], [3, 6]), 9)).toEqual([[1, 6]]);
    expect(taken(spansOf([1, 3], [1, 6]), 9)).toEqual([[1, 6]]);
    expect(taken(spansOf([1, 3], [4, 6], [2, 7]), 9)).toEqual([[1, 7]]);
    expect(taken(spansOf([4, 6], [8, 9], [1, 10]), 10)).toEqual([[1, 10]]);
    expect(taken(spansOf([1, 2], [4, 6], [8, 9], [5, 10]), 10)).toEqual([
      [1, 2],
      [4, 10],
    ]);
  });

  it('are taken up to a position, also in the middle of one', () => {
    const spans = spansOf([1, 4], [6, 8]);
    expect(taken(spans, 1)).toEqual([]);
    expect(taken(spans, 2)).toEqual([[1, 2]]);
    expect(taken(spans, 4)).toEqual([[2, 4]]);
    expect(spans.none).toBe(false);
    expect(taken(spans, 6)).toEqual([]);
    // Behind what was taken nothing is taken again.
    spans.add(7, 9);
    expect(taken(spans, 20)).toEqual([[6, 9]]);
    expect(spans.none).toBe(true);
  });

  it('cover what was added and nothing else, whenever they are taken', () => {
    const step = fc.record({
      gap: fc.integer({ min: 1, max: 4 }),
      length: fc.integer({ min: 1, max: 8 }),
      take: fc.option(fc.nat(3)),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const spans = new Spans();
        const [added, visited] = [new Set<number>(), new Set<number>()];
        let [end, position] = [0, 0];
        const take = (to: number) => {
          for (const [from, until] of taken(spans, to)) {
            expect(until).toBeLessThanOrEqual(to);
            for (let at = from; at < until; at += 1) visited.add(at);
          }
          position = to;
        };
        for (const { gap, length, take: back } of steps) {
          end += gap;
          const start = Math.max(position, end - length);
          spans.add(start, end);
          for (let at = start; at < end; at += 1) added.add(at);
          if (back !== null) take(Math.max(position, end - back));
        }
        take(end);
        expect([...visited].sort()).toEqual([...added].sort());
        expect(spans.none).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('use no more memory than there are ranges', () => {
    const removed: number[] = [];
    const spans = new Spans();
    const { splice } = Array.prototype;
    Array.prototype.splice = function (this: unknown[], ...about: [number, number]) {
      removed.push(about[1]);
      return splice.apply(this, about);
    };
    try {
      for (let at = 0; at < 40; at += 2) spans.add(at, at + 1);
      for (let at = 2; at <= 40; at += 2) taken(spans, at);
    } finally {
      Array.prototype.splice = splice;
    }
    // Half of all are taken before those are removed, so that each is moved a bounded number of times.
    expect(removed).toEqual([10, 5, 3, 1, 1]);
  });
});
