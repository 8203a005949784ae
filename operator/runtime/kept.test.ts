import { expect, test } from 'vitest';
import { Kept } from './kept.ts';

let [now, asked] = [0, 0];
const kept = new Kept<number>(() => now);
const ask = async () => {
  asked += 1;
  return asked;
};
const { signal } = new AbortController();

test('callers that ask in the meantime or soon after share one answer; later callers get another', async () => {
  expect(await Promise.all([kept.get('one', 10, ask, signal), kept.get('one', 10, ask, signal)])).toEqual([
    1, 1,
  ]);
  now += 9;
  expect(await kept.get('one', 10, ask, signal)).toBe(1);
  expect(await kept.get('other', 10, ask, signal)).toBe(2);
  now += 1;
  expect(await kept.get('one', 10, ask, signal)).toBe(3);
  kept.forget('one');
  expect(await kept.get('one', 10, ask, signal)).toBe(4);
});

test('a failure is passed to the waiting callers and to none after them', async () => {
  const fails = () => Promise.reject(new Error('no answer'));
  const both = [kept.get('failing', 10, fails, signal), kept.get('failing', 10, ask, signal)];
  for (const { status } of await Promise.allSettled(both)) expect(status).toBe('rejected');
  expect(await kept.get('failing', 10, ask, signal)).toBe(asked);
});

/** An answer that comes when it is given, or fails when its asking is ended. */
function asking() {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const seen: { signal?: AbortSignal } = {};
  const ask = (given: AbortSignal) => {
    seen.signal = given;
    given.addEventListener('abort', () => reject(given.reason));
    return promise;
  };
  return { ask, answer: resolve, isEnded: () => seen.signal?.aborted };
}

test('if the first caller gives up, the others still get their answer', async () => {
  const { ask, answer, isEnded } = asking();
  const first = new AbortController();
  const [one, other] = [kept.get('shared', 10, ask, first.signal), kept.get('shared', 10, ask, signal)];
  first.abort(new Error('gave up'));
  await expect(one).rejects.toThrow('gave up');
  expect(isEnded()).toBe(false);
  answer(7);
  expect(await other).toBe(7);
});

test('once all callers have given up the request ends, and the next caller begins another', async () => {
  const { ask: ended, isEnded } = asking();
  const [first, second] = [new AbortController(), new AbortController()];
  const both = [kept.get('left', 10, ended, first.signal), kept.get('left', 10, ended, second.signal)];
  first.abort(new Error('first'));
  await expect(both[0]).rejects.toThrow('first');
  second.abort(new Error('second'));
  const next = kept.get('left', 10, ask, signal);
  await expect(both[1]).rejects.toThrow('second');
  expect(isEnded()).toBe(true);
  expect(await next).toBe(asked);
});

test('a caller that has already given up begins no request', async () => {
  const before = asked;
  await expect(kept.get('never', 10, ask, AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
  expect(asked).toBe(before);
});
