import { describe, expect, it } from 'vitest';
import { foldedParameter, isPlainParameter, overridesMethod, parameterReadings } from './parameter.ts';

it.each([
  ['status', 'status'],
  ['Status', 'status'],
  ['a.b c', 'a_b_c'],
  ['a[x][y]', 'a'],
  ['a[x\ny]', 'a'],
  ['  a', 'a'],
  ['a\0b', 'a'],
  ['a\0\nb', 'a'],
  ['\uff53tatus', 'status'],
  ['st\u00e0tus', 'status'],
  ['st\u200batus', 'status'],
  ['\u017ftatus', 'status'],
  ['\u0131d', 'id'],
  ['a-b~c', 'a-b~c'],
])('the parameter %j is %j to a server that ignores everything ignorable', (name, folded) => {
  expect(foldedParameter(name)).toBe(folded);
});

it.each([
  ['status', ['status']],
  ['Status', ['status', '']],
  ['$a', ['$a', 'a', '']],
  ['.a', ['_a', 'a', '']],
  ['x.a', ['x_a', 'x', 'a']],
  ['x[a]', ['x', 'a', 'x_a']],
  ['x.y.a', ['x_y_a', 'x', 'a', 'y_a']],
  ['a>', ['a>', 'a', '']],
  ['>', ['>']],
  ['', ['']],
])('the parameter %j is read as each of %j by some server', (name, readings) => {
  expect([...new Set(parameterReadings(name))]).toEqual([...new Set(readings)]);
});

it('a parameter that is plain to all servers is read by one name', () => {
  for (const name of ['status', 'a-b', 'a_b', 'a~1']) expect(parameterReadings(name)).toEqual([name]);
  expect(parameterReadings('>')).toEqual(['>']);
});

describe('a name', () => {
  it.each(['a', 'a.b', 'a[]', 'a[b][c]', '$a', ' a', 'a?', 'ä', 'a\nb', 'a[\n]'])('%j is plain', (name) => {
    expect(isPlainParameter(name)).toBe(true);
  });
  it.each(['', '?a', '[a]', 'a]', 'a[b', 'a[b]c', 'a[[b]]', 'a%41', 'a[%41]', '[]', '%', 'a[b]%'])(
    '%j is not',
    (name) => {
      expect(isPlainParameter(name)).toBe(false);
    },
  );
});

describe('a parameter that changes the meaning of a request', () => {
  it.each([
    ...['_method', '_METHOD', 'httpMethod', '_HttpMethod', '$httpMethod', 'X-HTTP-Method-Override'],
    ...['x_http_method', 'X-Method-Override', '_method[]', '._method', '[_method]', '_\uff4dethod'],
  ])('is recognised by the name %s alone', (name) => {
    expect(overridesMethod(name)).toBe(true);
    expect(overridesMethod(name, 'x')).toBe(true);
  });

  it.each(['post', 'PUT', 'Patch', ' delete ', '\tDELETE\n'])(
    'is recognised as a method, with %j',
    (value) => {
      for (const name of ['method', 'Method', 'method[]']) expect(overridesMethod(name, value)).toBe(true);
      expect(overridesMethod('filter[method]', value)).toBe(false);
    },
  );

  it.each([
    ['method', undefined],
    ['method', ''],
    ['method', 'get'],
    ['method', 'deleted'],
    ['method', 'xdelete'],
    ['method', 'photos.search'],
    ['delete', 'delete'],
    ['a', 'delete'],
    ['my_method', 'delete'],
    ['_methods', 'delete'],
    ['x_http_methods', 'delete'],
    ['httpmethod_x', 'delete'],
  ])('is not recognised as %j with %j', (name, value) => {
    expect(overridesMethod(name, value)).toBe(false);
  });
});
