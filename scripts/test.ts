/**
 * `npm test`: everything that can fail, in order of what is quickest to know: the checks, the unit tests, what these notice
 * of the security decisions that have changed, the integration tests (real PostgreSQL, S3, API server), then the suites on
 * a real cluster that comes up for them and goes away after them, and beside them the integration tests that need one core for minutes. More beside the suites does not
 * pay on two cores: with all integration tests each took more than twice its time.
 * Ends with what failed, each with its first words, and the line `N passed, N failed`, whatever happens before. What
 * results/expected.ts expects and no result tells of fails, too, and so does what is skipped where nothing permits it.
 */
import { execFile, spawn } from 'node:child_process';
import { glob, mkdir, readFile, rm } from 'node:fs/promises';
import { relative } from 'node:path';
import { promisify } from 'node:util';
import { commandLine } from './command-line.ts';
import {
  type Count,
  countOf,
  expectedOf,
  lastLine,
  NOTHING,
  type Report,
  sumOf,
  unrun,
} from './results/count.ts';
import { isLayout, LAYOUTS, type Permitted, permittedOn } from './results/expected.ts';

const RESULTS = '.space/test';
/** Its tests keep a core busy for minutes, one after the other: they run beside the suites, which mostly wait. */
const BUSY = 'brokers/db/operations/';
/** Tests that have commands of their own. */
const ELSEWHERE = ['e2e/nightly/platforms.test.ts', 'e2e/nightly/upgrade.test.ts', 'e2e/nodes/nodes.test.ts'];
/** The name that e2e/suites/cluster.ts uses if no provider is named. */
const CLUSTER = 'space-test';

const say = (text: string) => console.log(`\n── ${text}`);

function run(program: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('close', (code) => resolve(code === 0));
  });
}

/** Where the suites' cluster comes from on this machine, when nobody has said it. */
async function providerHere(): Promise<string> {
  const asked = ['e2e/cluster/main.ts', 'provider', '--name', CLUSTER];
  return (await promisify(execFile)(process.execPath, asked)).stdout.trim();
}

/** One step that passes or fails as a whole. */
async function step(title: string, args: readonly string[]): Promise<Count> {
  say(title);
  const passed = await run(process.execPath, args);
  return passed ? { ...NOTHING, passed: 1 } : { ...NOTHING, failed: 1, failures: [title] };
}

/** What vitest runs of a project, and which files that were; a run that breaks before it can count is a failure of its own. */
async function project(
  permitted: Permitted,
  name: string,
  title: string,
  more: readonly string[] = [],
  file = name,
): Promise<Count> {
  say(title);
  const report = `${RESULTS}/${file}.json`;
  await rm(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', name, ...reporters, ...more];
  const clean = await run(process.execPath, vitest);
  const text = await readFile(report, 'utf8').catch(() => undefined);
  if (text === undefined) return { ...NOTHING, failed: 1, failures: [`${title}: broke off`] };
  const told: Report = JSON.parse(text);
  const testResults = told.testResults.map((one) => ({ ...one, name: relative('.', one.name) }));
  ran.push(...testResults.map((one) => one.name));
  return countOf({ testResults }, { permitted, clean, files: expectedOf(name), title });
}

/** Files of tests that no project has run, of all that there are. */
async function unseen(): Promise<Count> {
  const exclude = (path: string) => /(^|\/)node_modules$/.test(path);
  const there = await Array.fromAsync(glob('**/*.test.ts', { exclude }));
  const failures = unrun(
    there.filter((file) => !ELSEWHERE.includes(file)),
    ran,
  );
  return { ...NOTHING, failed: failures.length, failures };
}

const USAGE = `usage: npm test [-- options]
  --provider native|kind  where the suites' cluster comes from
  --suites LAYOUT         the suites alone, laid out otherwise: ${Object.keys(LAYOUTS).join(' or ')}
  --may-skip FILE         a file of tests that this machine cannot run; any other test that is skipped fails (may be repeated)`;
const { values } = commandLine(USAGE, {
  options: {
    provider: { type: 'string' },
    suites: { type: 'string' },
    'may-skip': { type: 'string', multiple: true, default: [] },
  },
});
const { suites } = values;
if (suites !== undefined && !isLayout(suites)) {
  console.error(`--suites ${suites}: known are ${Object.keys(LAYOUTS).join(', ')}`);
  process.exit(2);
}
if (values.provider !== undefined) process.env['SPACE_PROVIDER'] = values.provider;

const started = performance.now();
const counts: Count[] = [];
const ran: string[] = [];
try {
  await mkdir(RESULTS, { recursive: true });
  const provider = process.env['SPACE_PROVIDER'] ?? (await providerHere());
  const permitted = permittedOn(provider, values['may-skip'], suites);
  if (suites !== undefined) {
    process.env['SPACE_SUITES'] = suites;
    counts.push(await project(permitted, 'e2e', `suites on ${suites}`));
  } else counts.push(await step('checks: types, lint, dead code, generated files', ['scripts/check.ts']));
  if (suites === undefined && counts.every((count) => count.failed === 0)) {
    counts.push(await project(permitted, 'unit', 'unit tests'));
    const quick = ['testing/soak/main.ts', 'mutants', '--quick'];
    counts.push(await step('mutants of the lines of security decisions that differ from main', quick));
    counts.push(await project(permitted, 'integration', 'integration tests', [`--exclude=${BUSY}**`]));
    const busy = ['--no-file-parallelism', BUSY];
    const title = 'what the database broker does, and its model, beside the suites';
    const beside = project(permitted, 'integration', title, busy, 'beside');
    counts.push(
      ...(await Promise.all([project(permitted, 'e2e', 'suites on a real cluster'), beside])),
      await unseen(),
    );
  }
} catch (error) {
  // Whatever it was, the last line comes.
  const why = error instanceof Error ? error.message : String(error);
  counts.push({ ...NOTHING, failed: 1, failures: [`the tests themselves: ${why}`] });
}

const sum = sumOf(counts);
if (sum.failures.length > 0) say(`failed:\n${sum.failures.join('\n')}`);
say(`${((performance.now() - started) / 60_000).toFixed(1)} minutes`);
console.log(lastLine(sum));
process.exitCode = sum.failed === 0 ? 0 : 1;
