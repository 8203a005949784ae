/**
 * Measures how long a Space has no leading operator: from the signal to a leader until its warm standby leads, and from the
 * start of a process until it leads if no other does. The processes run the image's bundle, on a real API server.
 */
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type OperatorProcess,
  type OperatorProcesses,
  operatorProcesses,
} from '../operator/testing/process.ts';
import { openTestEnvironment, type TestEnvironment } from '../operator/testing/test-environment.ts';
import { bundle } from '../scripts/bundle.ts';
import { eventually } from '../testing/eventually.ts';
import { quantile, type Report, type Row } from '../testing/report.ts';

const ROUNDS = { quick: 1, full: 10 };
const PROGRAM = resolve(import.meta.dirname, '../dist/operator/main.mjs');

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  await bundle('operator');
  const environment = await openTestEnvironment();
  try {
    return await measure(environment, quick ? ROUNDS.quick : ROUNDS.full);
  } finally {
    await environment.close();
  }
}

async function measure(environment: TestEnvironment, rounds: number): Promise<Report> {
  const operators = await operatorProcesses(environment, await environment.space(), PROGRAM);
  const samples = {
    starts: [] as number[],
    planned: [] as number[],
    gone: [] as number[],
    killed: [] as number[],
  };
  try {
    for (let round = 0; round < rounds; round += 1) {
      const { leader, ms } = await started(operators);
      samples.starts.push(ms);
      leader.signal('SIGTERM');
      await leader.ended();
    }
    let { leader } = await started(operators);
    const over = async (into: number[], end: (leader: OperatorProcess) => Promise<number>) => {
      const next = await operators.start();
      await next.said('warm');
      await renewed(operators);
      const at = await end(leader);
      into.push((await next.said('leading')).at - at);
      await leader.ended();
      leader = next;
    };
    for (let round = 0; round < rounds; round += 1) {
      await over(samples.planned, async (last) => last.signal('SIGTERM'));
      await over(samples.gone, async (last) => {
        const at = last.signal('SIGKILL');
        await last.removePod();
        return at;
      });
      await over(samples.killed, async (last) => last.signal('SIGKILL'));
    }
  } finally {
    await operators.close();
  }

  const row = (what: string, values: readonly number[]): Row => ({
    'until an operator leads': what,
    'p50 ms': Math.round(quantile(values, 0.5)),
    'max ms': Math.round(Math.max(...values)),
  });
  const figures = Object.entries(samples).flatMap(([name, values]) => [
    [`${name}_p50_ms`, Math.round(quantile(values, 0.5))],
    [`${name}_max_ms`, Math.round(Math.max(...values))],
  ]);
  return {
    title: `Time without a leading operator, ${rounds} rounds each`,
    rows: [
      row('a process starts while no operator leads', samples.starts),
      row('the leader gets SIGTERM, and a standby takes over', samples.planned),
      row('the leader is killed and its pod deleted', samples.gone),
      row('the leader is killed and its pod stays', samples.killed),
    ],
    figures: { rounds, ...Object.fromEntries(figures) },
    notes: [
      'The process itself measures a start, from its own beginning; the time for its image and its container is not included.',
    ],
  };
}

/** Returns at a random moment between two renewals, after the standby has seen several of them. */
async function renewed(operators: OperatorProcesses): Promise<void> {
  for (let seen = 0; seen < 3; seen += 1) {
    const { renewTime } = await operators.lease();
    await eventually(async () => (await operators.lease()).renewTime !== renewTime, { what: 'a renewal' });
  }
  await pause(2_000 * Math.random());
}

/** Starts an operator; returns it once it leads, with the milliseconds since its process began. */
async function started(operators: OperatorProcesses) {
  const leader = await operators.start();
  const { sinceStartMs } = await leader.said('leading');
  return { leader, ms: sinceStartMs };
}
