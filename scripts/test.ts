/**
 * `npm test`: everything that can fail, in order of what is quickest to know: the checks, the unit tests, the integration
 * tests (real PostgreSQL, S3, API server), then the suites on a real cluster that comes up for them and goes away after
 * them, and beside them the integration tests that need a core for minutes.
 * Ends with the line `N passed, N failed`.
 */
import { spawn } from 'node:child_process';
import { mkdir, readFile, rm } from 'node:fs/promises';

const RESULTS = '.space/test';
/** Its tests keep a core busy for minutes, one after the other: they run beside the suites, which mostly wait. */
const BUSY = 'brokers/db/operations/';

interface Count {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const say = (text: string) => console.log(`\n── ${text}`);

function run(program: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('close', (code) => resolve(code === 0));
  });
}

/** One step that passes or fails as a whole. */
async function step(title: string, args: readonly string[]): Promise<Count> {
  say(title);
  const passed = await run(process.execPath, args);
  return { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0 };
}

/** What vitest runs of a project; a run that breaks before it can count is a failure of its own. */
async function project(
  name: string,
  title: string,
  more: readonly string[] = [],
  file = name,
): Promise<Count> {
  say(title);
  const report = `${RESULTS}/${file}.json`;
  await rm(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const clean = await run('node_modules/.bin/vitest', ['run', '--project', name, ...reporters, ...more]);
  const text = await readFile(report, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const result = JSON.parse(text) as Record<'numPassedTests' | 'numFailedTests' | 'numPendingTests', number>;
  const failed = Math.max(result.numFailedTests, clean ? 0 : 1);
  return { passed: result.numPassedTests, failed, skipped: result.numPendingTests };
}

const started = performance.now();
await mkdir(RESULTS, { recursive: true });
const counts: Count[] = [await step('checks: types, lint, dead code, generated files', ['scripts/check.ts'])];
if (counts.every((count) => count.failed === 0)) {
  counts.push(await project('unit', 'unit tests'));
  counts.push(await project('integration', 'integration tests', [`--exclude=${BUSY}**`]));
  const busy = ['--no-file-parallelism', BUSY];
  const beside = project(
    'integration',
    'what the database broker does, and its model, beside the suites',
    busy,
    'beside',
  );
  counts.push(await project('e2e', 'suites on a real cluster'), await beside);
}

const total = (key: keyof Count) => counts.reduce((sum, count) => sum + count[key], 0);
const minutes = ((performance.now() - started) / 60_000).toFixed(1);
say(`${minutes} minutes`);
const skipped = total('skipped') > 0 ? `, ${total('skipped')} skipped` : '';
console.log(`${total('passed')} passed, ${total('failed')} failed${skipped}`);
process.exitCode = total('failed') === 0 ? 0 : 1;
