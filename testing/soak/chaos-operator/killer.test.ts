import { expect, test } from 'vitest';
import { type Killable, killAtRandom } from './killer.ts';

/** A part that runs until it is killed, with the number of its starts. */
function part(name: string, failing = 0) {
  const seen = { starts: 0, up: 0 };
  const killable: Killable = {
    name,
    meanRunMs: 1,
    async start() {
      seen.starts += 1;
      if (seen.starts <= failing) throw new Error('what it needs is away');
      seen.up += 1;
      const { promise: gone, resolve } = Promise.withResolvers<void>();
      const kill = async () => {
        seen.up -= 1;
        resolve();
      };
      return { gone, kill };
    },
  };
  return { killable, seen };
}

test('kills as often as requested, and leaves every part running', async () => {
  const parts = [part('a'), part('b', 2)];
  const killer = killAtRandom(
    parts.map(({ killable }) => killable),
    20,
    Math.random,
  );
  await killer.over;
  expect((killer.killed['a'] ?? 0) + (killer.killed['b'] ?? 0)).toBe(20);
  expect(parts.map(({ seen }) => seen.up)).toEqual([1, 1]);
  expect(killer.ended).toEqual([]);
  await killer.stop();
  expect(parts.map(({ seen }) => seen.up)).toEqual([0, 0]);
});

test('a part that ends by itself is reported, and started again', async () => {
  const first = Promise.withResolvers<void>();
  let starts = 0;
  const weak: Killable = {
    name: 'weak',
    meanRunMs: Number.MAX_SAFE_INTEGER,
    async start() {
      starts += 1;
      return { gone: starts === 1 ? first.promise : new Promise(() => {}), kill: async () => {} };
    },
  };
  const killer = killAtRandom([weak], 1, () => 0);
  first.resolve();
  await killer.over;
  expect(killer.ended).toEqual(['weak']);
  expect([starts, killer.killed['weak']]).toEqual([3, 1]);
});
