import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { inOrder } from './in-order.ts';

const never = new AbortController().signal;

async function* numbers(count: number): AsyncGenerator<number> {
  for (let n = 0; n < count; n += 1) yield n;
}

test('results have the order of their items, however long each takes, and few run at the same time', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(3), { maxLength: 40 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 9 }),
      async (turns, atOnce, ahead) => {
        let [running, most] = [0, 0];
        const all = inOrder(numbers(turns.length), { atOnce, ahead, signal: never }, async (n) => {
          running += 1;
          most = Math.max(most, running);
          for (let turn = turns[n] ?? 0; turn > 0; turn -= 1) await pause(0);
          running -= 1;
          return n;
        });
        expect(await Array.fromAsync(all)).toEqual(turns.map((_, n) => n));
        expect(most).toBeLessThanOrEqual(atOnce);
      },
    ),
    { numRuns: 50 },
  );
});

test('one long action lets no more than so many results wait', async () => {
  let begun = 0;
  const first = Promise.withResolvers<void>();
  const all = inOrder(numbers(1_000), { atOnce: 4, ahead: 20, signal: never }, async (n) => {
    begun += 1;
    if (n === 0) await first.promise;
    return n;
  });
  const next = all.next();
  while (begun < 20) await pause(1);
  await pause(20);
  expect(begun).toBe(20);
  first.resolve();
  expect((await next).value).toBe(0);
  expect(await Array.fromAsync(all)).toHaveLength(999);
});

test('a result waits for no later one', async () => {
  let begun = 0;
  const all = inOrder(numbers(1_000), { atOnce: 4, ahead: 1_000, signal: never }, async (n) => {
    begun += 1;
    return n;
  });
  let most = 0;
  for await (const n of all) most = Math.max(most, begun - n);
  expect(begun).toBe(1_000);
  expect(most).toBeLessThan(10);
});

test('a failure aborts what runs, begins nothing else, and is what is thrown', async () => {
  const [begun, aborted]: number[][] = [[], []];
  const all = inOrder(numbers(100), { atOnce: 3, ahead: 10, signal: never }, async (n, signal) => {
    begun?.push(n);
    if (n === 2) throw new Error('the third');
    await pause(60_000, undefined, { signal }).catch((error: unknown) => {
      aborted?.push(n);
      throw error;
    });
  });
  await expect(Array.fromAsync(all)).rejects.toThrow('the third');
  expect(begun).toEqual([0, 1, 2]);
  expect(aborted).toEqual([0, 1]);
});

test('a reader that stops early ends what runs', async () => {
  let [begun, ended] = [0, 0];
  const all = inOrder(numbers(100), { atOnce: 3, ahead: 3, signal: never }, async (n, signal) => {
    begun += 1;
    if (n > 0) await pause(60_000, undefined, { signal }).catch(() => undefined);
    ended += 1;
    return n;
  });
  for await (const n of all) {
    expect(n).toBe(0);
    break;
  }
  expect(begun).toBeGreaterThan(1);
  expect(ended).toBe(begun);
});
