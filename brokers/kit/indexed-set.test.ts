import { expect, test } from 'vitest';
import { IndexedSet } from './indexed-set.ts';

const named = (name: string) => ({ name, index: -1 });
const names = (set: IndexedSet<ReturnType<typeof named>>) =>
  set
    .snapshot()
    .map(({ name }) => name)
    .toSorted();

test('holds what was added until it is deleted, at whatever index it is', () => {
  const set = new IndexedSet<ReturnType<typeof named>>();
  const [a, b, c, d] = [named('a'), named('b'), named('c'), named('d')];
  for (const item of [a, b, c, d]) set.add(item);
  set.delete(b);
  expect(names(set)).toEqual(['a', 'c', 'd']);
  set.delete(a);
  expect(names(set)).toEqual(['c', 'd']);
  set.delete(d);
  set.add(a);
  expect(names(set)).toEqual(['a', 'c']);
});

test('is not changed by deleting a missing item', () => {
  const set = new IndexedSet<ReturnType<typeof named>>();
  const [a, b] = [named('a'), named('b')];
  set.add(a);
  set.add(b);
  set.delete(a);
  set.delete(a);
  expect(names(set)).toEqual(['b']);
});

test('may lose items during a loop over a snapshot of it', () => {
  const set = new IndexedSet<ReturnType<typeof named>>();
  for (const name of ['a', 'b', 'c']) set.add(named(name));
  const seen: string[] = [];
  for (const item of set.snapshot()) {
    seen.push(item.name);
    set.delete(item);
  }
  expect(seen).toHaveLength(3);
  expect(set.snapshot()).toEqual([]);
});
