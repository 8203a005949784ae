import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  type Anchor,
  type AnchorVerdict,
  anchorKey,
  anchorOf,
  beyond,
  compare,
  readAnchor,
  writeAnchor,
} from './anchor.ts';
import { emptyInventory, NO_HEAD } from './inventory.ts';

const head = (digit: string) => digit.repeat(64);
const anchor = fc.record<Anchor>({
  revision: fc.integer({ min: 1 }),
  generation: fc.nat(),
  high: fc.nat(),
  head: fc.stringMatching(/^[0-9a-f]{64}$/),
});

it('an anchor is read as it was written', () => {
  fc.assert(
    fc.property(anchor, (one) => {
      expect(readAnchor(writeAnchor(one))).toEqual(one);
    }),
  );
});

it('invalid bytes are not an anchor', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(readAnchor(bytes)).toBeUndefined();
    }),
  );
  fc.assert(
    fc.property(anchor, fc.nat(200), (one, at) => {
      const bytes = writeAnchor(one);
      fc.pre(at < bytes.length);
      expect(readAnchor(bytes.subarray(0, at))).toBeUndefined();
    }),
  );
});

it.each([
  ['a head with something before it', { head: `x${head('a')}` }],
  ['a head with something behind it', { head: `${head('a')}x` }],
  ['a head in capitals', { head: head('A') }],
  ['no revision yet', { revision: 0 }],
  ['a negative number', { generation: -1 }],
  ['a fraction', { high: 0.5 }],
  ['a number that is not exact', { high: Number.MAX_SAFE_INTEGER + 1 }],
  ['another version', { v: 2 }],
  ['something more', { more: 1 }],
])('%s is not an anchor', (_, changed) => {
  const whole = { v: 1, revision: 1, generation: 0, high: 0, head: head('a') };
  const read = (value: object) => readAnchor(Buffer.from(JSON.stringify(value)));
  expect(read(whole)).toEqual({ revision: 1, generation: 0, high: 0, head: head('a') });
  expect(read({ ...whole, ...changed })).toBeUndefined();
});

it('has a key that is unique among Capsules of all Spaces, and that no tenant can have', () => {
  const keys = [anchorKey('a', 'bc'), anchorKey('ab', 'c'), anchorKey('a', 'b'), anchorKey('1:a', 'b')];
  expect(new Set(keys).size).toBe(4);
  for (const key of keys) expect(key).toMatch(/^custody\/v1\/[0-9a-f]{40}$/);
});

const base = emptyInventory('home', 1);
const stored = {
  ...base,
  revision: 5,
  generation: 4,
  high: 3,
  previous: head('a'),
  head: head('b'),
  headKid: 'k',
};
const same: Anchor = { revision: 5, generation: 4, high: 3, head: head('b') };

it.each<[string, typeof stored | undefined, Anchor | 'unreadable' | undefined, AnchorVerdict]>([
  ['neither knows anything', undefined, undefined, 'agree'],
  ['both know the same', stored, same, 'agree'],
  ['the crash of one change', stored, { revision: 4, generation: 3, high: 3, head: head('a') }, 'ahead'],
  ['the crash of the first change', { ...stored, revision: 1, previous: NO_HEAD }, undefined, 'ahead'],
  ['a registry of yesterday', stored, { revision: 9, generation: 8, high: 3, head: head('c') }, 'rollback'],
  ['a registry that knows nothing', undefined, same, 'rollback'],
  ['another history of the same length', stored, { ...same, head: head('c') }, 'rollback'],
  [
    'a next revision of another history',
    stored,
    { revision: 4, generation: 3, high: 3, head: head('c') },
    'rollback',
  ],
  ['a registry two ahead', stored, { revision: 3, generation: 2, high: 3, head: head('a') }, 'rollback'],
  ['a bucket that forgot', stored, undefined, 'rollback'],
  ['a bucket that forgot the first', { ...stored, revision: 1 }, undefined, 'rollback'],
  ['a bucket that counts otherwise', stored, { ...same, generation: 5 }, 'rollback'],
  ['a bucket that has seen more changes', stored, { ...same, revision: 6 }, 'rollback'],
  ['a bucket that has seen a higher number of a set', stored, { ...same, high: 4 }, 'rollback'],
  ['a bucket with something else there', stored, 'unreadable', 'rollback'],
  [
    'a bucket with something else in place of the first',
    { ...stored, revision: 1, previous: NO_HEAD },
    'unreadable',
    'rollback',
  ],
  ['a bucket with something else, and a registry that knows nothing', undefined, 'unreadable', 'rollback'],
])('%s', (_, registry, bucket, standing) => {
  expect(compare(registry, bucket)).toBe(standing);
});

it('a change is anchored with the numbers and the head that are stored', () => {
  expect(anchorOf(stored)).toEqual(same);
});

it('an administrator continues above all numbers of both sides, and after the anchored head', () => {
  const numbers = { revision: 5, generation: 4, high: 3 };
  const anchored = { revision: 2, generation: 7, high: 3, head: head('c') };
  expect(beyond(numbers, anchored)).toEqual({ revision: 6, generation: 8, high: 4, previous: head('c') });
  expect(beyond(undefined, anchored)).toEqual({ revision: 3, generation: 8, high: 4, previous: head('c') });
  for (const unknown of ['unreadable', undefined] as const)
    expect(beyond(numbers, unknown)).toEqual({ revision: 6, generation: 5, high: 4, previous: NO_HEAD });
  expect(beyond(undefined, undefined)).toEqual({ revision: 1, generation: 1, high: 1, previous: NO_HEAD });
});
