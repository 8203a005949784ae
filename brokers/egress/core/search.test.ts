import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileSearch } from './search.ts';

const bytes = (text: string) => Buffer.from(text, 'latin1');
/** So few letters that needles overlap, begin one another and begin again within themselves. */
const text = (maxLength: number, minLength = 0) =>
  fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength, maxLength });
const needlesAndText = fc.tuple(fc.uniqueArray(text(7, 1), { minLength: 1, maxLength: 5 }), text(60));

describe('a search', () => {
  it('finds every occurrence once, also those that overlap', () => {
    fc.assert(
      fc.property(needlesAndText, ([needles, within]) => {
        const expected = needles.flatMap((needle) =>
          Array.from({ length: within.length }, (_, at) => [at, at + needle.length]).filter(([at]) =>
            within.startsWith(needle, at),
          ),
        );
        const found = compileSearch(needles.map(bytes)).find(bytes(within));
        expect(found.toSorted(byPlace)).toEqual(expected.toSorted(byPlace));
      }),
      { numRuns: 2_000 },
    );
  });

  it('knows the longest end that may become an occurrence', () => {
    fc.assert(
      fc.property(needlesAndText, ([needles, within]) => {
        const ends = Array.from({ length: within.length }, (_, at) => within.slice(at));
        const begun = ends.find((end) =>
          needles.some((needle) => needle.length > end.length && needle.startsWith(end)),
        );
        expect(compileSearch(needles.map(bytes)).unfinished(bytes(within))).toBe(begun?.length ?? 0);
      }),
      { numRuns: 2_000 },
    );
  });

  it('finds needles of any length among any bytes', () => {
    const needle = fc.uint8Array({ minLength: 1, maxLength: 300 });
    const around = fc.uint8Array({ maxLength: 300 });
    fc.assert(
      fc.property(
        fc.array(needle, { minLength: 1, maxLength: 4 }),
        around,
        around,
        (needles, before, after) => {
          const [first] = needles;
          const found = compileSearch(needles).find(Buffer.concat([before, first!, after]));
          expect(found).toContainEqual([before.length, before.length + first!.length]);
        },
      ),
    );
  });
});

const byPlace = (a: readonly number[], b: readonly number[]): number => a[0]! - b[0]! || a[1]! - b[1]!;
