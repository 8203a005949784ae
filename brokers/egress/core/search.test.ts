import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { prepareSearch, type Tables } from './search.ts';
import { atOnce } from './slices.ts';

const compileSearch = (needles: readonly Uint8Array[], watch?: (tables: Tables) => Tables) =>
  atOnce(prepareSearch(needles, watch));
const bytes = (text: string) => Buffer.from(text, 'latin1');
/** So few letters that needles overlap, begin one another and begin again within themselves. */
const text = (maxLength: number, minLength = 0) =>
  fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength, maxLength });
const shortNeedles = fc.uniqueArray(text(7, 1), { minLength: 1, maxLength: 5 });
/** So long that they have much in common. */
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
  return { places };
}

/** What a search looks at in a text and in its own tables, by watching each array that it was made with. */
function looksAt(needles: readonly string[], text: string): Readonly<Record<string, number>> {
  const looks: Record<string, number> = {};
  const watch = <T extends object>(name: string, array: T): T => {
    looks[name] = 0;
    return new Proxy(array, {
      get(target, key) {
        if (typeof key === 'string' && /^\d+$/.test(key)) looks[name] = (looks[name] ?? 0) + 1;
        const found: unknown = Reflect.get(target, key, target);
        return found;
      },
    });
  };
  const search = compileSearch(needles.map(bytes), (tables) => {
    const watched = Object.entries(tables).map(([name, table]) => [name, watch(name, table)]);
    return Object.fromEntries(watched);
  });
  search.begin().push(watch('piece', bytes(text)), () => undefined);
  return looks;
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

  const VALUE = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
  const LENGTH = 2_048;
  it.each([
    ['nothing that any needle has', '\u0001'],
    ['the first letter alone', VALUE.slice(0, 1)],
    ['a short beginning', VALUE.slice(0, 4)],
    ['half of a needle', VALUE.slice(0, 16)],
    ['all of a needle but its end', VALUE.slice(0, -1)],
    ['all of a needle', VALUE],
    ['one letter that a needle repeats', 'a'],
    ['a beginning of every needle in turn', `${VALUE.slice(0, 9)}aaaab${'a'.repeat(99)}`],
  ])('reads its tables equally often when a text repeats %s', (_, part) => {
    const needles = [VALUE, Buffer.from(VALUE).toString('hex'), `${'a'.repeat(400)}b`];
    const looks = looksAt(needles, part.repeat(LENGTH).slice(0, LENGTH));
    const once = ['piece', 'letters', 'letterAt', 'nextAt', 'fromRoot', 'longestEnd'];
    expect(looks).toEqual(Object.fromEntries(once.map((name) => [name, LENGTH])));
  });

  it('needs a bounded number of bytes for each byte of its needles', () => {
    const lt = ['<', '&lt;', '%3C', '\\u003c', '3c'].map((form) => form.repeat(1_000));
    const many = Array.from({ length: 20 }, (_, index) => `${index}`.padStart(3, '0').repeat(1_000));
    for (const needles of [lt, many, ['ab'.repeat(2_000), 'ba'.repeat(2_000)], [VALUE]]) {
      const total = needles.reduce((sum, { length }) => sum + length, 0);
      const { bytes: size } = compileSearch(needles.map(bytes));
      expect(size).toBeGreaterThan(total);
      expect(size).toBeLessThan(total * 64 + 10_000);
    }
  });

  it('has tables that spell no needle', () => {
    const letters = new Set<string>();
    for (let round = 0; round < 20; round += 1) {
      compileSearch([bytes(VALUE)], (tables) => {
        letters.add(Array.from(bytes(VALUE), (byte) => tables.letters[byte]).join());
        for (const table of Object.values(tables))
          expect(Buffer.from(table.buffer).toString('latin1')).not.toContain(VALUE.slice(0, 4));
        return tables;
      });
    }
    expect(letters.size).toBe(20);
  });

  it('refuses an empty needle, and one that is longer than its tables allow', () => {
    const [some, longest] = [bytes('a'), Buffer.alloc(0xffff, 'a')];
    expect(() => compileSearch([])).toThrow();
    expect(() => compileSearch([Buffer.alloc(0)])).toThrow();
    expect(() => compileSearch([some, Buffer.alloc(0)])).toThrow();
    expect(() => compileSearch([Buffer.alloc(0x1_0000, 'a')])).toThrow();
    const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    expect(() => compileSearch([all])).toThrow('too many letters to search for');
    expect(found([Buffer.from(all.subarray(1)).toString('latin1')], [all]).places).toEqual([[1, 256]]);
    const places: number[][] = [];
    compileSearch([longest])
      .begin()
      .push(Buffer.alloc(0xffff, 'a'), (start, end) => places.push([start, end]));
    expect(places).toEqual([[0, 0xffff]]);
  });
});
