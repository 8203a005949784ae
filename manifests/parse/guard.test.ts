import { describe, expect, it } from 'vitest';
import type { ListRule, MapRule, Rule, StringRule } from '../rules/rule.ts';
import { errorList } from './error.ts';
import { guard, mostValues } from './guard.ts';

const looked = (value: unknown, most = 100) => {
  const { errors, report } = errorList();
  const measure = guard(value, most, report);
  return measure ?? errors.map(({ pointer, rule }) => `${pointer} ${rule}`);
};
const nested = (depth: number, inner: unknown, wrap: (inner: unknown) => unknown) =>
  Array.from({ length: depth }).reduce((value) => wrap(value), inner);

describe('a value that was parsed elsewhere', () => {
  it('is measured: each value, and six bytes for each character of keys and strings', () => {
    expect(looked(null)).toEqual({ values: 1, bytes: 24 });
    expect(looked('ab')).toEqual({ values: 1, bytes: 36 });
    expect(looked([true, 1, { key: ['x'] }])).toEqual({ values: 6, bytes: 6 * 24 + 18 + 6 });
  });

  it('is refused with more values than the largest document has', () => {
    expect(looked([1, 2], 3)).toMatchObject({ values: 3 });
    expect(looked([1, 2, 3], 3)).toEqual([' values']);
    expect(looked({ a: [1], b: 1 }, 3)).toEqual([' values']);
  });

  it.each<[string, (inner: unknown) => unknown, string]>([
    ['lists', (inner) => [inner], '/0'],
    ['objects', (inner) => ({ a: inner }), '/a'],
  ])('is refused if its %s nest too deeply, with the place', (_, wrap, step) => {
    expect(looked(nested(32, 1, wrap))).toMatchObject({ values: 33 });
    expect(looked(nested(33, 1, wrap))).toEqual([`${step.repeat(32)} depth`]);
    // What is beside it does not count.
    expect(looked([nested(31, 1, wrap), nested(31, 1, wrap)])).toMatchObject({ values: 65 });
    expect(looked({ a: nested(31, 1, wrap), b: nested(31, 1, wrap) })).toMatchObject({ values: 65 });
  });

  it('is refused with a key that a copy would lose', () => {
    expect(looked(JSON.parse('{"a":[{"b":1,"__proto__":2}]}'))).toEqual(['/a/0/__proto__ forbidden-key']);
  });

  it('is refused with half of a surrogate pair, in a string or a key, with the place', () => {
    expect(looked({ a: ['x', '\ud800'] })).toEqual(['/a/1 unicode']);
    expect(looked({ a: { '\udc00': 1 } })).toEqual(['/a unicode']);
    expect(looked({ a: '\ud83e\ude99' })).toMatchObject({ values: 2 });
  });

  it('is not read further after the first fault', () => {
    expect(looked(['\ud800', '\ud800'])).toEqual(['/0 unicode']);
    expect(looked({ a: '\ud800', b: '\ud800' })).toEqual(['/a unicode']);
  });
});

describe('the largest document of a rule', () => {
  const described = { title: 'a', description: 'b' };
  const text: StringRule = { ...described, kind: 'string', min: 0 };
  const list = (items: Rule, max: number): ListRule => ({ ...described, kind: 'list', min: 0, max, items });
  const map = (values: Rule, max: number): MapRule => ({
    ...{ ...described, kind: 'map', max, keys: text, values },
  });

  it('has as many values as lists and maps may be long', () => {
    expect(mostValues(text)).toBe(1);
    expect(mostValues(list(text, 5))).toBe(6);
    expect(mostValues(list(list(text, 2), 5))).toBe(16);
    expect(mostValues(map(list(text, 2), 5))).toBe(16);
  });

  it('has each property of an object', () => {
    const properties = { a: list(text, 5), b: text };
    expect(mostValues({ ...described, kind: 'object', required: properties } as unknown as Rule)).toBe(8);
  });
});
