/**
 * `npm test`: everything that can fail, in order of what is quickest to know: the checks, the unit tests, the
 * integration tests (real PostgreSQL, S3, API server), then the suites on a real cluster that comes up for them and goes
 * away after them, and beside them the integration tests that need one core for minutes. More beside the suites does not
 * pay on two cores: with all integration tests each took more than twice its time.
 * Ends with what failed, each with its first words, and the line `N passed, N failed`. `--provider` says where
 * the suites' cluster comes from, as for `npm run up`.
 */
import { spawn } from 'node:child_process';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { commandLine } from './command-line.ts';

const RESULTS = '.space/test';
/** Its tests keep a core busy for minutes, one after the other: they run beside the suites, which mostly wait. */
const BUSY = 'brokers/db/operations/';
interface Count {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** What did not pass, a line each. */
  readonly failures: readonly string[];
}

/** As vitest's reporter `json` writes it. */
interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

const NOTHING: Count = { passed: 0, failed: 0, skipped: 0, failures: [] };

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
  return passed ? { ...NOTHING, passed: 1 } : { ...NOTHING, failed: 1, failures: [title] };
}

/** Each test that failed with the first line of why; of a file that failed outside its tests, the file. */
function failuresOf(report: Report): string[] {
  const line = (file: string, test: string, why = '') =>
    `${relative('.', file)}: ${test}\n    ${stripVTControlCharacters(why).split('\n')[0]?.slice(0, 300)}`;
  return report.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const failed = assertionResults.filter((test) => test.status === 'failed');
    if (failed.length === 0 && status === 'failed') return [line(name, 'outside its tests', message)];
    return failed.map(({ fullName, failureMessages }) => line(name, fullName, failureMessages[0]));
  });
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
  if (text === undefined) return { ...NOTHING, failed: 1, failures: [`${title}: broke off`] };
  const result: Report = JSON.parse(text);
  const failed = Math.max(result.numFailedTests, clean ? 0 : 1);
  const failures = failuresOf(result);
  if (failed > 0 && failures.length === 0) failures.push(`${title}: failed outside of all files`);
  return { passed: result.numPassedTests, failed, skipped: result.numPendingTests, failures };
}

const { values } = commandLine('usage: npm test [-- --provider native|kind]', {
  options: { provider: { type: 'string' } },
});
if (values.provider !== undefined) process.env['SPACE_PROVIDER'] = values.provider;

const started = performance.now();
await mkdir(RESULTS, { recursive: true });
const counts: Count[] = [await step('checks: types, lint, dead code, generated files', ['scripts/check.ts'])];
if (counts.every((count) => count.failed === 0)) {
  counts.push(await project('unit', 'unit tests'));
  counts.push(await project('integration', 'integration tests', [`--exclude=${BUSY}**`]));
  const busy = ['--no-file-parallelism', BUSY];
  const title = 'what the database broker does, and its model, beside the suites';
  const beside = project('integration', title, busy, 'beside');
  counts.push(await project('e2e', 'suites on a real cluster'), await beside);
}

const failures = counts.flatMap((count) => count.failures);
if (failures.length > 0) say(`failed:\n${failures.join('\n')}`);
const total = (key: 'passed' | 'failed' | 'skipped') => counts.reduce((sum, count) => sum + count[key], 0);
const minutes = ((performance.now() - started) / 60_000).toFixed(1);
say(`${minutes} minutes`);
const skipped = total('skipped') > 0 ? `, ${total('skipped')} skipped` : '';
console.log(`${total('passed')} passed, ${total('failed')} failed${skipped}`);
process.exitCode = total('failed') === 0 ? 0 : 1;
