import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileSearch } from './search.ts';

const bytes = (text: string) => Buffer.from(text, 'latin1');
/** So few letters that needles overlap, begin one another and begin again within themselves. */
const text = (maxLength: number, minLength = 0) =>
  fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength, maxLength });
const shortNeedles = fc.uniqueArray(text(7, 1), { minLength: 1, maxLength: 5 });
/** Long enough that bytes are skipped. */
const longNeedles = fc.uniqueArray(text(60, 4), { minLength: 1, maxLength: 8 });

/** Of each end the longest occurrence, by looking everywhere. */
const expectedIn = (needles: readonly string[], within: string) =>
  Array.from({ length: within.length + 1 }, (_, end) => {
    const lengths = needles.filter((needle) => within.endsWith(needle, end)).map(({ length }) => length);
    return [end - Math.max(0, ...lengths), end];
  }).filter(([start, end]) => start !== end);

function found(needles: readonly string[], pieces: readonly Uint8Array[]) {
  const scan = compileSearch(needles.map(bytes)).begin();
  const places: number[][] = [];
  let before = 0;
  for (const piece of pieces) {
    scan.push(piece, (start, end) => places.push([before + start, before + end]));
    before += piece.length;
  }
  return { places, perByte: scan.steps / Math.max(1, before) };
}

describe('a search', () => {
  it.each([
    ['short', shortNeedles],
    ['long', longNeedles],
  ])('finds every occurrence of %s needles, also those that overlap, whatever the pieces', (_, needles) => {
    const insertion = fc.oneof(text(20), fc.nat(7));
    fc.assert(
      fc.property(needles, fc.array(insertion, { maxLength: 8 }), (wanted, parts) => {
        const pieces = parts.map((part) =>
          typeof part === 'string' ? part : (wanted[part % wanted.length] ?? ''),
        );
        const within = pieces.join('');
        const expected = expectedIn(wanted, within);
        expect(found(wanted, [bytes(within)]).places).toEqual(expected);
        expect(found(wanted, pieces.map(bytes)).places).toEqual(expected);
        expect(found(wanted, [...within].map(bytes)).places).toEqual(expected);
      }),
      { numRuns: 2_000 },
    );
  });

  it('finds needles of any length among any bytes', () => {
    const needle = fc.uint8Array({ minLength: 1, maxLength: 300 });
    const around = fc.uint8Array({ maxLength: 300 });
    const wanted = fc.array(needle, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(wanted, around, around, fc.nat(), (needles, before, after, cut) => {
        const [first] = needles;
        const whole = Buffer.concat([before, first!, after]);
        const at = cut % (whole.length + 1);
        const latin1 = needles.map((one) => Buffer.from(one).toString('latin1'));
        const { places } = found(latin1, [whole.subarray(0, at), whole.subarray(at)]);
        const [start, end] = [before.length, before.length + first!.length];
        // It, or one that ends there and is longer.
        expect(places.some((place) => place[0]! <= start && place[1] === end)).toBe(true);
      }),
    );
  });

  it('looks at each byte a few times at most, however its needles and the text repeat themselves', () => {
    const LONG = 4_096;
    const a = (length: number) => 'a'.repeat(length);
    const cases: readonly (readonly [needles: readonly string[], text: string])[] = [
      [[a(LONG)], a(100_000)],
      [[a(LONG)], `${a(LONG - 1)}b`.repeat(20)],
      [Array.from({ length: 64 }, (_, index) => a(64 * (index + 1))), a(100_000)],
      [Array.from({ length: 40 }, (_, index) => `${a(LONG)}${index}`), `${a(LONG)}x`.repeat(20)],
      [['ab'.repeat(2_048), 'ba'.repeat(2_048), `${'ab'.repeat(2_000)}c`], 'ab'.repeat(50_000)],
      [[`b${a(LONG)}`, `${a(LONG)}b`, 'aaaab'], a(100_000)],
      [['abcd', 'bcde', 'cdef'], 'abcabcdabcdefab'.repeat(5_000)],
    ];
    for (const [needles, whole] of cases) {
      // A byte, and a link for each byte that was taken before; a place where nothing is begun, and back from there.
      expect(found(needles, [bytes(whole)]).perByte).toBeLessThanOrEqual(3);
      const single = Array.from(bytes(whole), (byte) => Uint8Array.of(byte));
      expect(found(needles, single).perByte).toBeLessThanOrEqual(3);
    }
  });

  it('never looks at most bytes of a text that has nothing of its needles', () => {
    const needles = ['sk_live_4eC39HqLyjWDarjtT1zdp7dc', '736b5f6c6976655f34654333394871'];
    expect(found(needles, [Buffer.alloc(100_000, '{"id": 17, "name": "user"}, ')]).perByte).toBeLessThan(0.1);
  });

  it('needs a bounded number of bytes for each byte of its needles, and spells none of them', () => {
    const needles = Array.from({ length: 20 }, (_, index) => `${index}`.padStart(3, '0').repeat(1_000));
    const search = compileSearch(needles.map(bytes));
    expect(search.bytes).toBeLessThan(20 * 3_000 * 10 + 10_000);
  });

  it('refuses to look for nothing', () => {
    expect(() => compileSearch([])).toThrow();
    expect(() => compileSearch([Buffer.alloc(0)])).toThrow();
  });
});
