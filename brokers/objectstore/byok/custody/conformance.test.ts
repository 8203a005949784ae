import { expect, it } from 'vitest';
import { runCustody } from './testing/conformance/run.ts';

/** `npm run soak -- conformance` judges a million. */
const EVENTS = 1_000;

it('writes and answers nothing that its model does not permit, in kills, late writes and restores', async () => {
  const { wrong, events, killed, setBack } = await runCustody({ events: EVENTS, seed: Date.now() % 2 ** 31 });
  expect(wrong, JSON.stringify(wrong, undefined, 2)).toBeUndefined();
  expect(events).toBeGreaterThanOrEqual(EVENTS);
  expect(killed).toBeGreaterThan(0);
  expect(setBack).toBeGreaterThan(0);
});
