import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { fromPyPi } from '../../installed/python.ts';
import { lines, NAMES, type Outcome } from '../outcome.ts';

const SCRIPTS = new URL('./python/', import.meta.url).pathname;

/** Runs the cases of a script beside this file with a package of PyPI. */
export async function withPython(
  by: string,
  script: string,
  requirement: string,
  endpoint: string,
  keys: S3Keys,
): Promise<readonly Outcome[]> {
  const packages = await fromPyPi(requirement);
  const child = spawn('python3', ['-B', `${SCRIPTS}${script}`], {
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', LANG: 'C.UTF-8', PYTHONPATH: packages },
  });
  child.stdin.on('error', () => undefined).end(JSON.stringify({ endpoint, keys, names: NAMES }));
  const [said, complaint, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const outcomes = lines(said).map((line) => ({ by, ...(JSON.parse(line) as Omit<Outcome, 'by'>) }));
  if (code !== 0 || outcomes.length === 0)
    throw new Error(`${by} ended with ${code} after ${outcomes.length} cases: ${complaint.slice(-800)}`);
  return outcomes;
}
