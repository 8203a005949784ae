import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type ClientFixture,
  GREETING,
  openClientFixture,
  runClient,
} from '../../brokers/egress/testing/clients.ts';
import { CASES, type Case } from './compat-egress/cases.ts';
import type { Outcome } from './outcome.ts';
import { outcomeOf } from './outcome.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/**
 * HTTP clients that are not ours, unmodified, through a tunnel of the egress gateway to a host behind TLS: Java, Go,
 * Python, packages of npm, a browser where there is one. Node's own, curl, wget and git are in `npm test`. What is not
 * installed here is skipped, and said so. Ends with 1 when a case fails.
 */

/** Nothing here takes long, so `--quick` changes nothing. */
export async function run(_options: SoakOptions): Promise<SoakReport> {
  const fixture = await openClientFixture();
  try {
    const outcomes: Outcome[] = [];
    const skipped: string[] = [];
    for (const one of CASES) {
      const missing = one.needs.find((program) => !isInstalled(program));
      if (missing === undefined)
        outcomes.push(await outcomeOf(one.client, 'tunnel', () => tryOut(fixture, one)));
      else skipped.push(`${one.client}: skipped, since ${missing} is not installed here`);
    }
    const failed = outcomes.filter((one) => one.failed !== undefined);
    return {
      passed: failed.length === 0,
      title: 'HTTP clients through a tunnel of the egress gateway',
      rows: CASES.map(({ client, setting }) => ({ client, setting, outcome: outcomeFor(client, outcomes) })),
      figures: { cases: outcomes.length, failed: failed.length, skipped: skipped.length },
      notes: [...skipped, ...failed.map((one) => `${one.by}: ${one.failed}`)],
    };
  } finally {
    await fixture.close();
  }
}

async function tryOut(fixture: ClientFixture, one: Case): Promise<void> {
  const { command, files = {}, env = {} } = await one.prepare(fixture);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(fixture.directory, name), text);
  const text = await runClient(fixture, command, { env });
  if (!text.includes(GREETING)) throw new Error(text);
}

function outcomeFor(client: string, outcomes: readonly Outcome[]): string {
  const outcome = outcomes.find(({ by }) => by === client);
  if (outcome === undefined) return 'skipped';
  return outcome.failed === undefined ? 'works' : 'fails';
}

function isInstalled(program: string): boolean {
  try {
    execFileSync('which', [program], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
