import { expect, test } from 'vitest';
import { systemClock } from './clock.ts';
import { type ControllerOptions, type Outcome, runController } from './controller.ts';
import { ApiError } from './errors.ts';
import { Queue } from './queue.ts';

/** Runs until `outcomes` reconciles have ended. */
async function outcomesOf(
  count: number,
  reconcile: ControllerOptions['reconcile'],
  keys: readonly string[] = ['a'],
) {
  const queue = new Queue({ clock: systemClock, firstRetryMs: 1 });
  const seen: [string, Outcome][] = [];
  const running = runController({
    name: 'test',
    queue,
    workers: 2,
    deadlineMs: 50,
    reconcile,
    onOutcome(key, outcome) {
      seen.push([key, outcome]);
      if (seen.length === count) queue.close();
    },
  });
  for (const key of keys) queue.add(key);
  await running;
  return seen;
}

test('a failure is tried again until it succeeds', async () => {
  let tries = 0;
  const outcomes = await outcomesOf(3, async () => {
    tries += 1;
    if (tries < 3) throw new Error('not yet');
    return {};
  });
  expect(outcomes.map(([, outcome]) => outcome)).toEqual(['error', 'error', 'success']);
});

test('one object whose reconcile throws stops no other, whatever it throws', async () => {
  const outcomes = await outcomesOf(
    3,
    async (key) => {
      if (key === 'bad') throw undefined;
      return {};
    },
    ['bad', 'good', 'better'],
  );
  expect(new Map(outcomes)).toEqual(
    new Map([
      ['bad', 'error'],
      ['good', 'success'],
      ['better', 'success'],
    ]),
  );
});

test('a conflict is not an error, since the next reconcile sees the newer object', async () => {
  let tries = 0;
  const outcomes = await outcomesOf(2, async () => {
    tries += 1;
    if (tries === 1) throw new ApiError({ status: 409, reason: 'Conflict', message: 'old view' });
    return { requeueAfterMs: 60_000 };
  });
  expect(outcomes.map(([, outcome]) => outcome)).toEqual(['requeue', 'requeue_after']);
});

test('a reconcile that takes too long is told to stop', async () => {
  const outcomes = await outcomesOf(1, (_, signal) => {
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  });
  expect(outcomes).toEqual([['a', 'error']]);
});
