import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorList } from './error.ts';
import { decode, isReadable, readJson } from './json.ts';

/** The value, or the errors as whoever wrote the text sees them. */
const read = (text: string, most = 1_000) => {
  const { errors, report } = errorList();
  const document = readJson(text, most, report);
  const told = errors.map(({ pointer, rule, message }) => `${pointer} ${rule}: ${message}`);
  return told.length > 0 ? { told, value: document?.value } : document;
};
const refused = (text: string, most?: number) => read(text, most) as { told: string[]; value: unknown };

describe('JSON', () => {
  it('is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.constantFrom('', ' ', '\n\t\r '), (text, space) => {
        // That key is refused.
        fc.pre(!text.includes('__proto__'));
        expect(read(`${space}${text}${space}`)).toEqual({ value: JSON.parse(text) });
      }),
    );
    for (const indent of [1, '\t'])
      expect(read(JSON.stringify({ a: [1, { b: [] }, {}], c: null }, null, indent))).toEqual({
        value: { a: [1, { b: [] }, {}], c: null },
      });
  });

  it.each(['0', '-0', '10', '-1.25', '1e3', '1E+3', '1.5e-3', 'true', 'false', 'null', '"\\u00e4\\n\\/"'])(
    '%s is a value',
    (text) => {
      expect(read(text)).toEqual({ value: JSON.parse(text) });
      expect(read(`[ ${text} , ${text} ]`)).toEqual({ value: [JSON.parse(text), JSON.parse(text)] });
    },
  );

  it.each([
    ['', 'must have a JSON value here; found the end of the text (line 1, column 1)'],
    ['[1,]', 'must have a JSON value here; found "]" (line 1, column 4)', '/1'],
    ['[1 2]', 'must have a comma or the end of the list here (line 1, column 4)'],
    ['[', 'must have a JSON value here; found the end of the text (line 1, column 2)', '/0'],
    ['{"a":1,}', 'must have a property name in double quotes here (line 1, column 8)'],
    ['{"a" 1}', 'must have a colon after the property name (line 1, column 6)', '/a'],
    ['{"a":1 "b":2}', 'must have a comma or the end of the object here (line 1, column 8)'],
    ['{\n "a": [1,\n x]}', 'must have a JSON value here; found "x" (line 3, column 2)', '/a/1'],
    ['tru', 'must have true or another JSON value here (line 1, column 1)'],
    ['falsy', 'must have false or another JSON value here (line 1, column 1)'],
    ['nul', 'must have null or another JSON value here (line 1, column 1)'],
    ['01', 'has something after the end of its one JSON document (line 1, column 2)'],
    ['1 2', 'has something after the end of its one JSON document (line 1, column 3)'],
    ['1\u00a0', 'has something after the end of its one JSON document (line 1, column 2)'],
    [
      '"a',
      'must end its string with a double quote, and write control characters as \\u escapes (line 1, column 3)',
    ],
    [
      '"a\\x"',
      'must end its string with a double quote, and write control characters as \\u escapes (line 1, column 3)',
    ],
    [
      '"\u001f"',
      'must end its string with a double quote, and write control characters as \\u escapes (line 1, column 2)',
    ],
  ])('%j is not a value, and the place is reported', (text, message, pointer = '') => {
    expect(refused(text)).toEqual({ told: [`${pointer} json: ${message}`], value: undefined });
  });

  it('has no more values than the largest document, and nests no deeper than 32 levels', () => {
    expect(read('[1,2]', 3)).toEqual({ value: [1, 2] });
    expect(refused('[1,2,3]', 3).told[0]).toMatch(/^ values: must not have more than 3 values/);
    for (const [open, close, step] of [
      ['[', ']', '/0'],
      ['{"a":', '}', '/a'],
    ] as const) {
      const nested = (depth: number) => `${open.repeat(depth)}1${close.repeat(depth)}`;
      expect(read(nested(32))).toEqual({ value: JSON.parse(nested(32)) });
      expect(refused(nested(33)).told[0]).toMatch(`${step.repeat(32)} depth: must not nest deeper than 32`);
      expect(read(`[${nested(31)},${nested(31)}]`)).toHaveProperty('value');
    }
  });

  it('has each key once, and none that a copy would lose; the first value stays', () => {
    expect(refused('{"a":{"b":1,"b":2,"\\u0062":3},"c":4}')).toEqual({
      told: Array(2).fill('/a/b duplicate-key: must not be given twice in one object'),
      value: { a: { b: 1 }, c: 4 },
    });
    expect(refused('[{"__proto__":1,"a":2}]')).toEqual({
      told: ['/0/__proto__ forbidden-key: must not be named __proto__'],
      value: [{ a: 2 }],
    });
    expect(read('{"constructor":1}')).toEqual({ value: { constructor: 1 } });
  });

  it('has whole characters in its strings', () => {
    expect(read('"\\ud83e\\ude99"')).toEqual({ value: '🪙' });
    expect(refused('["\\ud800"]').told).toEqual([
      '/0 unicode: must not have half of a surrogate pair in a string',
    ]);
  });
});

it('errors show what was found in plain characters only', () => {
  expect(refused('ä').told[0]).toMatch(/^ json: must have a JSON value here; found "[\x20-\x7e]+"/);
});

it('errors of other causes are rethrown', () => {
  let calls = 0;
  const report = () => {
    calls += 1;
    if (calls === 1) throw new Error('nobody can be told');
  };
  expect(() => readJson('{"a":1,"a":2}', 10, report)).toThrow('nobody can be told');
});

describe('bytes', () => {
  const decoded = (...bytes: readonly number[]) => {
    const { errors, report } = errorList();
    return decode(Uint8Array.from(bytes), report) ?? errors[0]?.message;
  };

  it('have to be UTF-8, and the error says what they look like otherwise', () => {
    expect(decoded(0x7b, 0xc3, 0xa4)).toBe('{ä');
    expect(decoded(0xef, 0xbb, 0xbf, 0x7b)).toBe('\ufeff{');
    expect(decoded(0x7b, 0x7d, 0x20, 0x20, 0)).toBe('{}  \0');
    for (const mark of [
      [0xfe, 0xff],
      [0xff, 0xfe],
      [0x7b, 0],
      [0x7b, 0x7d, 0x20, 0],
    ])
      expect(decoded(...mark)).toBe('must be UTF-8; this looks like UTF-16 or UTF-32');
    for (const other of [[0xfe, 0xfe], [0xff, 0xff], [0x7b, 0xff], [0x7b, 0xfe], [0xff], [0xfe]])
      expect(decoded(...other)).toBe('must be UTF-8; found bytes that are not');
  });
});

describe('text', () => {
  it('can be read if it is complete and without a byte order mark', () => {
    const readable = (text: string) => {
      const { errors, report } = errorList();
      return [isReadable(text, report), ...errors.map(({ rule }) => rule)];
    };
    expect(readable(' {}')).toEqual([true]);
    expect(readable('\ufeff{}')).toEqual([false, 'encoding']);
    expect(readable('\ufeff')).toEqual([false, 'encoding']);
    for (const nothing of ['', ' \n']) expect(readable(nothing)).toEqual([false, 'json']);
    expect(readable('"\ud800"')).toEqual([false, 'unicode']);
  });
});
