import fc from 'fast-check';
import { expect, test } from 'vitest';
import { restartDelay } from './supervisor.ts';

test('a component that ends at once is started again sooner, then later and later, never after half a minute', () => {
  const delays = [0];
  for (let count = 0; count < 12; count += 1) delays.push(restartDelay(delays.at(-1)!, 100));
  expect(delays.slice(1, 5)).toEqual([250, 500, 1000, 2000]);
  expect(delays.at(-1)).toBe(30_000);
});

test('one that ran for long is started again at once', () => {
  expect(restartDelay(30_000, 60_000)).toBe(250);
});

test('there is always a pause', () => {
  fc.assert(
    fc.property(fc.nat(30_000), fc.nat(1_000_000), (previous, ran) => {
      const delay = restartDelay(previous, ran);
      return delay >= 1 && delay <= 30_000;
    }),
  );
});
