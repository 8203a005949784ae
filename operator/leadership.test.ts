import { expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { Leadership } from './leadership.ts';
import type { ApiClient } from './runtime/client.ts';
import { systemClock } from './runtime/clock.ts';
import { ApiError } from './runtime/errors.ts';

test('an API server that does not tell the operator who it is, is a problem that is reported', async () => {
  const refusal = new ApiError({ status: 403, reason: 'Forbidden', message: 'selfsubjectreviews' });
  const client = { call: () => Promise.reject(refusal) } as unknown as ApiClient;
  const problems: unknown[] = [];
  const ending = new AbortController();
  const leadership = new Leadership({
    client,
    clock: systemClock,
    names: { space: 'home', systemNamespace: 'home-system' },
    holder: 'one',
    onProblem: (problem) => problems.push(problem),
  });
  const acquiring = leadership.acquire(ending.signal);
  await eventually(() => problems.length > 1, { what: 'two attempts are reported' });
  expect(problems[0]).toBe(refusal);
  ending.abort();
  await expect(acquiring).rejects.toBe(refusal);
});
