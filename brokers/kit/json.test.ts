import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseStrictJson, StrictJsonError, scan } from './json.ts';

const bytes = (text: string) => Buffer.from(text, 'utf8');

describe('strict JSON', () => {
  it('reads every JSON value that JSON.stringify can write', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8, noUnicodeString: false }), (value) => {
        const text = JSON.stringify(value);
        if (text.includes('__proto__')) return;
        expect(parseStrictJson(bytes(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  it('finds a duplicate key wherever it is and however it is written', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1 }),
        fc.array(fc.constantFrom('[', '{"x":'), { maxLength: 8 }),
        (key, path) => {
          if (key === '__proto__') return;
          const escaped = `"${[...key].map((c) => [...Array(c.length).keys()].map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')).join('')}"`;
          const close = path.map((part) => (part === '[' ? ']' : '}')).toReversed();
          const text = `${path.join('')}{${JSON.stringify(key)} : 1, "y":{"x":[]} ,${escaped}\n:2}${close.join('')}`;
          if (key !== 'y') expect(() => parseStrictJson(bytes(text))).toThrow(StrictJsonError);
        },
      ),
    );
  });

  it.each([
    ['a key that reaches the prototype', '{"__proto__":{}}'],
    ['the same, escaped and deep', '[{"a":{"\\u005f_proto__":1}}]'],
    ['text after the value', '{} {}'],
    ['nothing', ''],
    ['a byte order mark', '\uFEFF{}'],
    ['UTF-16', '{\u0000}\u0000'],
    ['ten thousand levels', '['.repeat(10_000) + ']'.repeat(10_000)],
    ['seventeen levels', '['.repeat(17) + ']'.repeat(17)],
    ['a NUL in a string', '{"a":"\u0000"}'],
    ['a comment', '{/**/}'],
  ])('refuses %s', (_, text) => {
    expect(() => parseStrictJson(bytes(text))).toThrow(StrictJsonError);
  });

  it('refuses what is not UTF-8', () => {
    expect(() => parseStrictJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow(StrictJsonError);
  });

  it('accepts equal keys of different objects and equal strings', () => {
    const text = '[{"a":"a","b":"a"},{"a":{"a":["a","a"]}}]';
    expect(parseStrictJson(bytes(text))).toEqual(JSON.parse(text));
  });

  it('quotes nothing of the text in its message', () => {
    const attempt = () => parseStrictJson(bytes('{"token":"canary"'));
    expect(attempt).toThrow(expect.objectContaining({ message: expect.not.stringContaining('canary') }));
  });

  it('ends at the first element or member beyond the limit, and builds nothing of what follows', () => {
    const limits = { elements: 3, members: 2 };
    expect(parseStrictJson(bytes('[1,{"a":1,"b":2},3]'), limits)).toEqual([1, { a: 1, b: 2 }, 3]);
    expect(() => parseStrictJson(bytes('[1,2,3,4]'), limits)).toThrow('too many');
    expect(() => parseStrictJson(bytes('{"a":1,"b":2,"c":3}'), limits)).toThrow('too many');
    // Nothing after it is read: this is not even JSON.
    const counted = counting(bytes(`[${'{},'.repeat(3)}${'{'.repeat(100_000)}`));
    expect(() => scan(counted.bytes, limits)).toThrow('too many');
    expect(counted.reads()).toBeLessThan(100);
  });

  it.each([
    ['many arrays', '[1,2],'],
    ['many empty arrays', '[],'],
    ['arrays in arrays', '[[[[[[[[[[]]]]]]]]]],'],
    ['arrays in objects', '{"a":[1,2]},'],
    ['objects in objects', '{"a":{"a":{"a":{"b":0},"b":{}}},"b":{}},'],
  ])('bounds the elements of the whole document: %s', (_, piece) => {
    const limits = { elements: 1_000, members: 2 };
    const few = piece.repeat(80).slice(0, -1);
    expect(parseStrictJson(bytes(`[${few}]`), limits)).toEqual(JSON.parse(`[${few}]`));
    const counted = counting(bytes(`[${piece.repeat(5_000)}`));
    expect(() => scan(counted.bytes, limits)).toThrow('too many');
    expect(counted.reads()).toBeLessThan(3 * piece.length * 1_001);
  });

  it.each([
    ['objects without end', '{},'],
    ['strings of one escape', '"\\u0061",'],
    ['keys', '{"aaaaaaaa":0},'],
    ['one object of many keys', ',"aaaaaaaa'],
    ['quotation marks', '"'],
    ['backslashes', '\\'],
    ['numbers', '0,'],
    ['spaces', ' '],
    ['levels', '[]'],
  ])('reads no byte more than three times: %s', (_, piece) => {
    for (const before of ['', '[', '{"a":[', '"']) {
      const text = bytes(before + piece.repeat(4_000));
      const counted = counting(text);
      try {
        scan(counted.bytes, { elements: Number.POSITIVE_INFINITY, members: Number.POSITIVE_INFINITY });
      } catch (error) {
        expect(error).toBeInstanceOf(StrictJsonError);
      }
      expect(counted.reads()).toBeLessThanOrEqual(3 * text.length + 3);
    }
  });
});

/** Bytes that count how often they are read, one by one or in a row. */
function counting(of: Buffer): { readonly bytes: Uint8Array; readonly reads: () => number } {
  let reads = 0;
  const counted = new Proxy(new Uint8Array(of), {
    get: (target, name) => {
      if (name === 'subarray')
        return (from: number, to: number) => {
          reads += Math.max(0, to - from);
          return target.subarray(from, to);
        };
      if (typeof name === 'string' && /^\d+$/.test(name)) reads += 1;
      return Reflect.get(target, name, target);
    },
  });
  return { bytes: counted, reads: () => reads };
}
