/** `npm test` itself, in a directory with a vitest that says what it is told to: its last line comes whatever happens. */
import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SUITES } from './results/expected.ts';

const PROGRAM = resolve(import.meta.dirname, 'test.ts');
/** Writes what `reports.json` has for the project, and ends as it says there. */
const VITEST = `
import { readFileSync, writeFileSync } from 'node:fs';
const word = (name) => process.argv.find((one) => one.startsWith(name + '='))?.slice(name.length + 1);
const project = process.argv[process.argv.indexOf('--project') + 1];
const { code, testResults } = JSON.parse(readFileSync('reports.json', 'utf8'))[project] ?? { code: 1 };
if (testResults) writeFileSync(word('--outputFile.json'), JSON.stringify({ testResults }));
process.exitCode = code;
`;

let directory: string;
const write = async (path: string, text: string) => {
  await mkdir(join(directory, dirname(path)), { recursive: true });
  await writeFile(join(directory, path), text);
};
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-runner-'));
  for (const passing of ['scripts/check.ts', 'testing/soak/main.ts']) await write(passing, '');
  await write('node_modules/vitest/vitest.mjs', VITEST);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const passed = (name: string) => ({
  name: join(directory, name),
  status: 'passed',
  message: '',
  assertionResults: [{ fullName: 'holds', status: 'passed', failureMessages: [] }],
});
const whole = () => ({
  unit: { code: 0, testResults: [passed('a.test.ts')] },
  integration: { code: 0, testResults: [passed('b.test.ts')] },
  e2e: { code: 0, testResults: SUITES.map(passed) },
});

async function run(reports: object, ...args: readonly string[]) {
  await write('reports.json', JSON.stringify(reports));
  for (const file of ['a.test.ts', 'b.test.ts']) await write(file, '');
  const { status, stdout } = spawnSync(process.execPath, [PROGRAM, '--provider', 'native', ...args], {
    cwd: directory,
    encoding: 'utf8',
  });
  return { status, stdout, last: stdout.trimEnd().split('\n').at(-1) };
}

describe('npm test', () => {
  it('ends with 0 when every file of tests ran and passed', async () => {
    expect(await run(whole())).toMatchObject({
      status: 0,
      last: `${2 + 1 + 2 + SUITES.length} passed, 0 failed`,
    });
  });

  it('runs only the suites on other layouts, and permits the skips of these', async () => {
    const skipping = (name: string) => ({
      ...passed(name),
      assertionResults: [{ fullName: 'is archived', status: 'skipped', failureMessages: [] }],
    });
    const backup = 'e2e/suites/backup.test.ts';
    const testResults = SUITES.map((name) => (name === backup ? skipping(name) : passed(name)));
    const e2e = { e2e: { code: 0, testResults } };
    const passing = SUITES.length - 1;
    expect(await run(e2e, '--suites', 'own-engines')).toMatchObject({
      status: 0,
      last: `${passing} passed, 0 failed, 1 skipped`,
    });
    expect(await run(e2e, '--suites', 'three-nodes')).toMatchObject({
      status: 1,
      last: `${passing} passed, 1 failed`,
    });
    expect((await run(e2e, '--suites', 'two-nodes')).status).toBe(2);
  });

  it('counts every suite that broke', async () => {
    const broken = { status: 'failed', message: 'no cluster', assertionResults: [] };
    const e2e = { code: 1, testResults: SUITES.map((name) => ({ ...passed(name), ...broken })) };
    const { status, last, stdout } = await run({ ...whole(), e2e });
    expect([status, last]).toEqual([1, `5 passed, ${SUITES.length} failed`]);
    expect(stdout).toContain(`${SUITES[0]}: outside its tests`);
  });

  it('reports a file that no project has run, and a suite without a result', async () => {
    await write('moved/c.test.ts', '');
    const e2e = { code: 0, testResults: SUITES.slice(1).map(passed) };
    const { status, last, stdout } = await run({ ...whole(), e2e });
    expect([status, last]).toEqual([1, `${4 + SUITES.length} passed, 2 failed`]);
    expect(stdout).toContain('moved/c.test.ts: missing');
    expect(stdout).toContain(`${SUITES[0]}: missing`);
  });

  it('ends with its summary line if a project breaks off early, for example without Go', async () => {
    const { integration: _, ...others } = whole();
    const { status, last, stdout } = await run(others);
    expect(status).toBe(1);
    expect(last).toMatch(/^\d+ passed, [1-9]\d* failed$/);
    expect(stdout).toContain('integration tests: broke off');
  });

  it('ends with its summary line if the runner itself fails', async () => {
    // A file stands where its results are to go.
    await write('.space', '');
    const { status, last, stdout } = await run(whole());
    expect([status, last]).toEqual([1, '0 passed, 1 failed']);
    expect(stdout).toContain('the tests themselves: ');
  });
});
