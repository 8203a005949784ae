import { expect, it } from 'vitest';
import { runRegistry } from '../testing/conformance/run.ts';

/** `npm run soak -- conformance` judges a million. */
const EVENTS = 1_000;

it('does nothing to its registry that its model does not permit, while its processes are killed', async () => {
  const seed = Date.now() % 2 ** 31;
  const { wrong, events, killed, problems } = await runRegistry({ events: EVENTS, seed });
  expect(wrong, JSON.stringify(wrong, undefined, 2)).toBeUndefined();
  expect(problems, `seed ${seed}`).toEqual([]);
  expect(events).toBeGreaterThanOrEqual(EVENTS);
  expect(killed).toBeGreaterThan(0);
});
