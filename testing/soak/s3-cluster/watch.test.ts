import { expect, test } from 'vitest';
import { type Attempt, isDocumented, longestGap, type Refusal, Watch } from './watch.ts';

const refusal = (status: number, code: string, retryAfter?: number): Refusal => ({
  status,
  code,
  retryAfter,
});

test('a refusal with a retry time or a known cause is documented', () => {
  expect(isDocumented(refusal(503, 'unavailable', 1))).toBe(true);
  expect(isDocumented(refusal(503, 'unavailable'))).toBe(false);
  expect(isDocumented(refusal(502, 'upstream_failed'))).toBe(true);
  expect(isDocumented(refusal(504, 'InternalError'))).toBe(true);
  expect(isDocumented(refusal(500, 'internal'))).toBe(false);
  expect(isDocumented(refusal(404, 'not_found'))).toBe(false);
  expect(isDocumented(refusal(503, 'custody_rollback', 1))).toBe(false);
  expect(isDocumented({ ...refusal(400, 'InternalError'), late: true })).toBe(true);
});

test('it retries until a good answer, and records the others', async () => {
  const watch = new Watch();
  const answers: Attempt<string>[] = [
    { refused: refusal(503, 'unavailable', 1) },
    { refused: refusal(500, 'internal') },
    { cut: 'ECONNRESET' },
    { value: 'good' },
  ];
  const ask = async () => answers.shift() ?? { value: 'late' };
  expect(await watch.insist('writes', 'put a', ask)).toEqual({ value: 'good', tries: 4 });
  expect(Object.fromEntries(watch.refusals)).toEqual({ '503 unavailable': 1, '500 internal': 1 });
  expect(watch.problems).toEqual([
    'put a: refused with 500 internal, Retry-After undefined',
    'put a: no answer: ECONNRESET',
  ]);
  expect(watch.at.writes).toHaveLength(1);
  expect(watch.takeSlowest()).toBeGreaterThan(250);
  expect(watch.takeSlowest()).toBe(0);
});

test('a read that is cut is no problem: it had begun', async () => {
  const watch = new Watch();
  const answers: Attempt<string>[] = [{ cut: 'terminated' }, { value: 'good' }];
  await watch.insist('reads', 'get a', async () => answers.shift() ?? { value: '' });
  expect([watch.problems, watch.cutReads]).toEqual([[], 1]);
});

test('a gap lasts from the moment to the next answer, and to now where there is none', () => {
  expect(longestGap([1, 12, 14], 10, 15)).toBe(2);
  expect(longestGap([1, 12, 14], 10, 20)).toBe(6);
  expect(longestGap([], 10, 20)).toBe(10);
});
