import { expect, test } from 'vitest';
import { together } from './together.ts';

test('gives every value, in order', async () => {
  expect(await together([Promise.resolve(1), 'two', undefined])).toEqual([1, 'two', undefined]);
});

test('a failure is thrown when all the others have ended, and not before', async () => {
  const slow = Promise.withResolvers<void>();
  let thrown: unknown;
  const all = together([
    slow.promise,
    Promise.reject(new Error('first')),
    Promise.reject(new Error('second')),
  ]);
  const told = all.catch((error: unknown) => {
    thrown = error;
  });
  // Both failures are long known.
  for (let i = 0; i < 100; i++) await Promise.resolve();
  expect(thrown).toBeUndefined();
  slow.resolve();
  await told;
  expect(thrown).toEqual(new Error('first'));
});
