import { expect, test } from 'vitest';
import { Kept } from './kept.ts';

let [now, asked] = [0, 0];
const kept = new Kept<number>(() => now);
const ask = async () => {
  asked += 1;
  return asked;
};

test('who asks meanwhile, or soon after, gets the one answer; who asks later another', async () => {
  expect(await Promise.all([kept.get('one', 10, ask), kept.get('one', 10, ask)])).toEqual([1, 1]);
  now += 9;
  expect(await kept.get('one', 10, ask)).toBe(1);
  expect(await kept.get('other', 10, ask)).toBe(2);
  now += 1;
  expect(await kept.get('one', 10, ask)).toBe(3);
  kept.forget('one');
  expect(await kept.get('one', 10, ask)).toBe(4);
});

test('a failure is told to those who wait for it and to nobody after them', async () => {
  const fails = () => Promise.reject(new Error('no answer'));
  const both = [kept.get('failing', 10, fails), kept.get('failing', 10, ask)];
  for (const { status } of await Promise.allSettled(both)) expect(status).toBe('rejected');
  expect(await kept.get('failing', 10, ask)).toBe(asked);
});
