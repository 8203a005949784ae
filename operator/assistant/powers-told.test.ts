/** What becomes of a version with new powers when the Event about them cannot be recorded. */
import { expect, test } from 'vitest';
import type { Context } from '../context.ts';
import { ApiError, TransportError } from '../runtime/errors.ts';
import type { Workload } from './identity.ts';
import { tellWiderPowers } from './powers.ts';

const workload = { assistant: { metadata: { name: 'ledger', uid: 'one' } } } as unknown as Workload;
const answer = (status: number, message: string) => new ApiError({ status, reason: 'Any', message });

/** What is returned, and how often something is logged. */
async function tell(error?: Error) {
  let logged = 0;
  const context = {
    events: { announce: () => (error ? Promise.reject(error) : Promise.resolve()) },
    log: {
      warn: () => {
        logged += 1;
      },
    },
  } as unknown as Context;
  const told = await tellWiderPowers(context, workload, 'It may do more.', new AbortController().signal);
  return { told, logged };
}

test('it is rolled out when the Event is stored', async () => {
  expect(await tell()).toEqual({ told: undefined, logged: 0 });
});

test.each([
  answer(403, 'events.events.k8s.io is forbidden'),
  answer(422, 'Event "a" is invalid'),
  answer(404, 'the server could not find the requested resource'),
  answer(500, 'Internal error occurred: failed calling webhook "events.test": connection refused'),
  answer(500, 'admission webhook "events.test" denied the request: no'),
])('it is rolled out where Events are refused: %s', async (error) => {
  expect(await tell(error)).toEqual({ told: undefined, logged: 1 });
});

test.each<[Error, string]>([
  [answer(500, 'etcdserver: request timed out'), 'it said "etcdserver: request timed out"'],
  [answer(503, 'apiserver not ready'), 'it said "apiserver not ready"'],
  [answer(429, 'too many requests'), 'it said "too many requests"'],
  [new TransportError('POST /events got no answer'), 'it does not answer'],
])('it waits, and says so, while no Event can be stored: %s', async (error, why) => {
  const { told, logged } = await tell(error);
  expect(told).toMatchObject({ finding: { status: 'False', reason: 'WriteRefused' }, retry: error });
  expect(told?.finding.message).toContain(why);
  expect(logged).toBe(0);
});

test('another error, as of a lost Lease, ends the reconcile', async () => {
  await expect(tell(new Error('the Lease is lost'))).rejects.toThrow('the Lease is lost');
});
