import { expect, test } from 'vitest';
import { Bag } from './bag.ts';

const named = (name: string) => ({ name, at: -1 });
const names = (bag: Bag<ReturnType<typeof named>>) =>
  bag
    .all()
    .map(({ name }) => name)
    .toSorted();

test('holds what was added until it is removed, from whatever place', () => {
  const bag = new Bag<ReturnType<typeof named>>();
  const [a, b, c, d] = [named('a'), named('b'), named('c'), named('d')];
  for (const one of [a, b, c, d]) bag.add(one);
  bag.remove(b);
  expect(names(bag)).toEqual(['a', 'c', 'd']);
  bag.remove(a);
  expect(names(bag)).toEqual(['c', 'd']);
  bag.remove(d);
  bag.add(a);
  expect(names(bag)).toEqual(['a', 'c']);
});

test('is not changed by removing what is gone', () => {
  const bag = new Bag<ReturnType<typeof named>>();
  const [a, b] = [named('a'), named('b')];
  bag.add(a);
  bag.add(b);
  bag.remove(a);
  bag.remove(a);
  expect(names(bag)).toEqual(['b']);
});

test('may lose members while all of them are gone through', () => {
  const bag = new Bag<ReturnType<typeof named>>();
  for (const name of ['a', 'b', 'c']) bag.add(named(name));
  const seen: string[] = [];
  for (const one of bag.all()) {
    seen.push(one.name);
    bag.remove(one);
  }
  expect(seen).toHaveLength(3);
  expect(bag.all()).toEqual([]);
});
