/**
 * Measures what many Capsules and Assistants, which are suspended from the start, cost the operator. The API server and etcd are
 * real; the operator runs as in its image, in a process of its own with a ServiceAccount's token. A stand-in replaces the
 * kubelet for the one probe of the sandbox, and the chart's admission policies are not installed. `--capsules N` sets another
 * number of Capsules, with five Assistants each, and `--rest SECONDS` a longer rest.
 */
import type { Report } from '../testing/report.ts';
import { judge, rounded } from './scale/judge.ts';
import { inTestEnvironment } from './scale/measure.ts';

const CAPSULES = { quick: 100, full: 1_000 };
const ASSISTANTS_EACH = 5;
/** Longer than the operator trusts a watch without events. */
const REST_SECONDS = { quick: 10, full: 120 };

interface Options {
  readonly quick: boolean;
  readonly capsules?: number;
  readonly rest?: number;
}

export async function run({ quick, capsules, rest }: Options): Promise<Report> {
  const sized = (count: number) => ({ capsules: count, assistants: count * ASSISTANTS_EACH });
  const whole = sized(capsules ?? (quick ? CAPSULES.quick : CAPSULES.full));
  const half = sized(Math.ceil(whole.capsules / 2));
  const restSeconds = rest ?? (quick ? REST_SECONDS.quick : REST_SECONDS.full);
  const small = await inTestEnvironment(half, REST_SECONDS.quick);
  const large = await inTestEnvironment(whole, restSeconds);
  const judged = judge({ ...whole, restSeconds }, small, large);
  return {
    title: `Cost of ${whole.capsules} Capsules and ${whole.assistants} Assistants that are created suspended`,
    rows: judged.map(({ row }) => row),
    figures: Object.fromEntries(judged.map(({ key, figure }) => [key, figure])),
    notes: [
      'Growth is the cost of the whole population divided by that of half of it, so 2 is linear. A live change takes from its request until a watch delivers its effect. A fail-over takes from the signal to the old leader until the new one has acted on a change.',
      'Costs of half the population: ' + JSON.stringify(rounded(half, small)),
    ],
  };
}
