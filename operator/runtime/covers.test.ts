import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { covers } from './covers.ts';

describe('a live object covers a wish', () => {
  test.each<[string, unknown, unknown]>([
    ['when it says the same and the defaults beside it', { a: 1 }, { a: 1, b: 'default' }],
    ['when an empty wish is dropped by the server', { ingress: [], selector: {} }, {}],
    [
      'when a quantity is spelt otherwise',
      { resources: { limits: { cpu: '1000m' } } },
      { resources: { limits: { cpu: '1' } } },
    ],
    [
      'when memory is spelt otherwise',
      { hard: { 'limits.memory': '1.5Gi' } },
      { hard: { 'limits.memory': '1536Mi' } },
    ],
    [
      'when a size is spelt otherwise',
      { emptyDir: { sizeLimit: '0.5Gi' } },
      { emptyDir: { sizeLimit: '512Mi' } },
    ],
    ['when half of a pair is stored as U+FFFD', { a: 'b\ud83d' }, { a: 'b\ufffd' }],
    ['in lists, item by item', { l: [{ a: 1 }] }, { l: [{ a: 1, d: 0 }] }],
  ])('%s', (_, wish, live) => expect(covers(wish, live)).toBe(true));

  test.each<[string, unknown, unknown]>([
    ['when a value differs', { a: 1 }, { a: 2 }],
    ['when a list is longer', { l: [1] }, { l: [1, 2] }],
    ['when something stands where nothing should', { ingress: [] }, { ingress: [{}] }],
    ['when a false that is not the default is taken off', { automountServiceAccountToken: false }, {}],
    ['when a zero that is not the default is taken off', { replicas: 0 }, {}],
    [
      'when a text only looks like an equal quantity',
      { env: [{ value: '1000m' }] },
      { env: [{ value: '1' }] },
    ],
    ['when a quantity differs', { limits: { cpu: '1' } }, { limits: { cpu: '2' } }],
    ['when a quantity is none', { limits: { cpu: 'much' } }, { limits: { cpu: 'more' } }],
    ['when an object stands for a list', { l: [1] }, { l: { 0: 1, length: 1 } }],
  ])('not %s', (_, wish, live) => expect(covers(wish, live)).toBe(false));

  test('everything covers itself, also when something is added to its objects', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, extra) => {
        expect(covers(value, value)).toBe(true);
        const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
        if (isObject && Object.keys(value).length > 0 && !(extra in value)) {
          expect(covers(value, { ...value, [extra]: 'server default' })).toBe(true);
        }
      }),
    );
  });

  test('equal quantities are equal in every unit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), (n) => {
        const cpu = (text: string) => ({ limits: { cpu: text } });
        expect(covers(cpu(`${n}k`), cpu(`${n * 1000}`))).toBe(true);
        expect(covers(cpu(`${n}Ki`), cpu(`${n * 1024}`))).toBe(true);
        expect(covers(cpu(`${n}m`), cpu(`${n * 1000}u`))).toBe(true);
        expect(covers(cpu(`${n}e3`), cpu(`${n}k`))).toBe(true);
        expect(covers(cpu(`${n}`), cpu(`${n + 1}`))).toBe(false);
      }),
    );
  });
});
