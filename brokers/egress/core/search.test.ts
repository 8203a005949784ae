import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileSearch, searchFor, simpleSearch } from './search.ts';

const bytes = (text: string) => Buffer.from(text, 'latin1');
/** So few letters that needles overlap, begin one another and begin again within themselves. */
const text = (maxLength: number, minLength = 0) =>
  fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength, maxLength });
const needlesAndText = fc.tuple(fc.uniqueArray(text(7, 1), { minLength: 1, maxLength: 5 }), text(60));

const prepared = (needles: readonly string[]) => compileSearch(needles.map(bytes));

describe.each([
  ['prepared', prepared],
  ['simple', simpleSearch],
])('a %s search', (_, search) => {
  it('finds every occurrence once, also those that overlap', () => {
    fc.assert(
      fc.property(needlesAndText, ([needles, within]) => {
        const expected = needles.flatMap((needle) =>
          Array.from({ length: within.length }, (_, at) => [at, at + needle.length]).filter(([at]) =>
            within.startsWith(needle, at),
          ),
        );
        const found = search(needles).find(bytes(within));
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
        expect(search(needles).unfinished(bytes(within))).toBe(begun?.length ?? 0);
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
          const found = search(needles.map((one) => Buffer.from(one).toString('latin1'))).find(
            Buffer.concat([before, first!, after]),
          );
          expect(found).toContainEqual([before.length, before.length + first!.length]);
        },
      ),
    );
  });
});

it('a search finds the same before and after it prepares itself', () => {
  fc.assert(
    fc.property(needlesAndText, fc.array(fc.nat(3_000), { maxLength: 4 }), ([needles, within], fillers) => {
      const search = searchFor(needles);
      for (const filler of fillers) {
        const around = Buffer.concat([Buffer.alloc(filler), bytes(within)]);
        const expected = prepared(needles);
        expect(search.find(around).toSorted(byPlace)).toEqual(expected.find(around).toSorted(byPlace));
        expect(search.unfinished(around)).toBe(expected.unfinished(around));
      }
    }),
  );
});

const byPlace = (a: readonly number[], b: readonly number[]): number => a[0]! - b[0]! || a[1]! - b[1]!;
