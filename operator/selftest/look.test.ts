import { expect, test } from 'vitest';
import { ApiError, TransportError } from '../runtime/errors.ts';
import type { Check } from './checks.ts';
import { look } from './look.ts';

const check = (...faults: string[]): Check[] => [{ name: 'parts', faults, found: 'all' }];
const unavailable = new ApiError({ status: 503, reason: 'ServiceUnavailable', message: 'GET /: 503' });

/** Looks with these answers, one after the other; the last one stays. */
function looking(seconds: number, ...answers: readonly (Check[] | Error)[]) {
  let at = 0;
  const once = async () => {
    const answer = answers[Math.min(at, answers.length - 1)];
    at += 1;
    if (!Array.isArray(answer)) throw answer;
    return answer;
  };
  return { asked: () => at, checks: look(once, { seconds, againMs: 1 }) };
}

test('what has not passed yet is looked at again, also when the API server answers with an error', async () => {
  const { asked, checks } = looking(
    60,
    check('it is starting'),
    unavailable,
    new TransportError('GET / got no answer'),
    check(),
  );
  expect(await checks).toEqual(check());
  expect(asked()).toBe(4);
});

test('what has not passed when the time is over is the result', async () => {
  expect(await looking(0, check('it is gone')).checks).toEqual(check('it is gone'));
  await expect(looking(0, unavailable).checks).rejects.toThrow(unavailable);
});
