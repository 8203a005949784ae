import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { CASES } from '../../../brokers/objectstore/api/s3/testing/cases/index.ts';
import { keysOf, players } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import type { TestBroker } from '../../../brokers/objectstore/testing/broker.ts';
import { fromPyPi } from '../../installed/python.ts';
import { lines, type Outcome } from '../outcome.ts';

const SCRIPT = new URL('../../../brokers/objectstore/api/s3/testing/play.py', import.meta.url).pathname;

/** Runs with boto3, in one interpreter, the table of cases that `npm test` runs with the AWS SDK for JavaScript. */
export async function withBoto3(requirement: string, broker: TestBroker): Promise<readonly Outcome[]> {
  const packages = await fromPyPi(requirement);
  const who = Object.entries(await players(broker));
  const keys = Object.fromEntries(
    await Promise.all(who.map(async ([name, one]) => [name, await keysOf(one)] as const)),
  );
  const child = spawn('python3', [SCRIPT], {
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', PYTHONPATH: packages },
  });
  child.stdin.end(JSON.stringify({ endpoint: broker.dataUrl, keys, cases: CASES }));
  const [said, complaint, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const outcomes = lines(said).map((line) => ({ by: 'boto3', ...(JSON.parse(line) as Omit<Outcome, 'by'>) }));
  if (code !== 0 || outcomes.length !== CASES.length)
    throw new Error(`boto3 played ${outcomes.length} of ${CASES.length} cases: ${complaint.slice(-400)}`);
  return outcomes;
}
