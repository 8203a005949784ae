import { openClientFixture } from '../../brokers/egress/testing/clients.ts';
import { CASES, type Case, missingProgram, runCase } from './compat-egress/cases.ts';
import type { Outcome } from './outcome.ts';
import { outcomeOf } from './outcome.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/**
 * Runs unmodified HTTP clients through a tunnel of the egress gateway to a TLS host: Java, Go, Python, packages of npm, and a
 * browser if there is one; and prints a table. `npm test` runs the same, and Node's own client, curl, wget and git. Clients that
 * are not installed are skipped and reported. The exit code is 1 if a case fails.
 */

/** This is quick, so `--quick` changes nothing. */
export async function run(_options: SoakOptions): Promise<SoakReport> {
  const fixture = await openClientFixture();
  try {
    const outcomes: Outcome[] = [];
    const skipped: string[] = [];
    for (const one of CASES) {
      const missing = missingProgram(one);
      if (missing === undefined)
        outcomes.push(await outcomeOf(one.client, 'tunnel', () => runCase(fixture, one)));
      else skipped.push(`${one.client}: skipped, since ${missing} is not installed here`);
    }
    const failed = outcomes.filter((one) => one.failed !== undefined);
    return {
      passed: failed.length === 0,
      title: 'HTTP clients through a tunnel of the egress gateway',
      rows: CASES.map((one) => ({
        client: one.client,
        setting: one.setting,
        outcome: outcomeFor(one, outcomes),
      })),
      figures: { cases: outcomes.length, failed: failed.length, skipped: skipped.length },
      notes: [...skipped, ...failed.map((one) => `${one.by}: ${one.failed}`)],
    };
  } finally {
    await fixture.close();
  }
}

function outcomeFor({ client, refused }: Case, outcomes: readonly Outcome[]): string {
  const outcome = outcomes.find(({ by }) => by === client);
  if (outcome === undefined) return 'skipped';
  if (outcome.failed !== undefined) return 'fails';
  return refused === undefined ? 'works' : `refused: ${refused}`;
}
