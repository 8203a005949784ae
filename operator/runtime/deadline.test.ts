import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withDeadline } from './deadline.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const never = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });

test('work ends when its time is over', async () => {
  const ended = expect(withDeadline(50, [], never)).rejects.toMatchObject({ name: 'TimeoutError' });
  await vi.advanceTimersByTimeAsync(50);
  await ended;
});

test('work ends with any of the signals, with its reason, also with one that was aborted before', async () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const ended = expect(withDeadline(50, [one.signal, undefined, other.signal], never)).rejects.toBe('enough');
  other.abort('enough');
  await ended;
  await expect(withDeadline(50, [other.signal, one.signal], never)).rejects.toBe('enough');
});

test('completed work leaves no timer and no listener behind, however it ended', async () => {
  const { signal } = new AbortController();
  expect(await withDeadline(90_000, [signal], async () => 'done')).toBe('done');
  await expect(withDeadline(90_000, [signal], () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(vi.getTimerCount()).toBe(0);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
