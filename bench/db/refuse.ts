import type { DatabaseFixture } from './fixture.ts';
import { measure, type Part, p99, rate, round, row } from './samples.ts';

/** Measures refusals of requests with an unknown token, from one caller and from many. */
export async function refuse(fixture: DatabaseFixture, quick: boolean): Promise<Part> {
  await fixture.settle();
  await measure(200, 4, fixture.refuse);
  const alone = await measure(quick ? 500 : 3_000, 1, fixture.refuse);
  const together = await measure(quick ? 1_000 : 10_000, 16, fixture.refuse);
  return {
    rows: [row('refusal, 1 caller', alone), row('refusal, 16 callers', together)],
    figures: { refusal_p99_ms: p99(alone), refusals_per_second: round(rate(together)) },
  };
}
