import { expect, test } from 'vitest';
import { oncePerTick } from './once-per-tick.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('callers that ask for the same in one turn share the result, and later ones do not', async () => {
  let count = 0;
  const make = oncePerTick((key: string) => {
    count += 1;
    return `${key}${count}`;
  });
  expect([make('a'), make('a')]).toEqual(['a1', 'a1']);
  await Promise.resolve();
  expect(make('a')).toBe('a1');
  await turn();
  expect([make('a'), make('a')]).toEqual(['a2', 'a2']);
});

test('no caller gets what was created for another', async () => {
  let count = 0;
  const make = oncePerTick((key: string) => {
    count += 1;
    return `${key}${count}`;
  });
  expect([make('a'), make('b'), make('b'), make('a')]).toEqual(['a1', 'b2', 'b2', 'a3']);
  await turn();
  expect(make('a')).toBe('a4');
});

test('a failed creation is tried again', () => {
  let fails = true;
  const make = oncePerTick((key: string) => {
    if (fails) throw new Error('not now');
    return key;
  });
  expect(() => make('a')).toThrow('not now');
  fails = false;
  expect(make('a')).toBe('a');
});
