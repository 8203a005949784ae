import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { KUBERNETES_VERSION } from '../e2e/cluster/builds/pins.ts';
import { NODE_IMAGE } from '../e2e/cluster/kind/configuration.ts';
import { OWN, packagesToBuild } from '../e2e/cluster/platform.ts';

const WORKFLOWS = resolve(import.meta.dirname, '../.github/workflows');

const workflows = async (): Promise<readonly string[]> =>
  (await readdir(WORKFLOWS)).map((file) => `${WORKFLOWS}/${file}`);

it('the public workflows pass actionlint', async () => {
  const files = await workflows();
  expect(files).not.toEqual([]);
  const lint = promisify(execFile)('go', ['-C', 'scripts/actionlint', 'tool', 'actionlint', ...files]);
  const report = await lint.then(
    () => '',
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  );
  expect(report).toBe('');
}, 300_000);

it('an action of a public workflow is pinned by its commit, with its version beside it', async () => {
  const texts = await Promise.all((await workflows()).map((file) => readFile(file, 'utf8')));
  const uses = texts.flatMap((text) => text.match(/uses:.*/g) ?? []);
  expect(uses).not.toEqual([]);
  expect(uses.filter((line) => !/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual(
    [],
  );
});

interface Workflow {
  readonly jobs: Readonly<Record<string, { 'runs-on': string; steps: readonly { run?: string }[] }>>;
}

it('a public workflow runs on a system of a named version, and chooses kind, whose node image is pinned by what it contains', async () => {
  const texts = await Promise.all((await workflows()).map((file) => readFile(file, 'utf8')));
  const jobs = texts.flatMap((text) => Object.values((parse(text) as Workflow).jobs));
  expect(jobs.map((job) => job['runs-on'])).toEqual(
    jobs.map(() => expect.stringMatching(/^ubuntu-\d+\.\d+$/)),
  );
  const commands = jobs.flatMap((job) => job.steps.flatMap(({ run }) => (run === undefined ? [] : [run])));
  expect(commands.filter((run) => run.startsWith('npm test'))).toEqual([
    'npm test -- --provider kind',
    'npm test -- --provider kind --suites own-engines',
  ]);
  const minor = KUBERNETES_VERSION.replace(/\.\d+$/, '');
  expect(NODE_IMAGE).toMatch(new RegExp(`^kindest/node:${minor}\\.\\d+@sha256:[0-9a-f]{64}$`));
});

/** The runners of GitHub are amd64; what this machine would need is the same where it is one, too. */
it.skipIf(OWN !== 'linux/amd64')(
  'the public night builds the images for both platforms: it is root, and has the packages for that',
  async () => {
    const { jobs } = parse(await readFile(`${WORKFLOWS}/nightly.yaml`, 'utf8')) as Workflow;
    const commands = Object.values(jobs).flatMap((job) => job.steps.map(({ run = '' }) => run));
    expect(commands.find((run) => run.endsWith('npm run nightly'))).toMatch(/^sudo /);
    const installed = commands.find((run) => run.includes('apt-get install'))?.split(' ') ?? [];
    const needed = packagesToBuild(['linux/amd64', 'linux/arm64']).map((one) => one.package);
    expect(['util-linux', ...installed]).toEqual(expect.arrayContaining(needed));
  },
);
