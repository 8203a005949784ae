/**
 * A process that runs the tests of one file repeatedly, each time with another mutant instead of the file. vitest starts once, so
 * everything else stays compiled and loaded. Nothing is written to the disk. Its parent ends it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  BaseSequencer,
  createVitest,
  type TestCase,
  type TestModule,
  type TestSpecification,
} from 'vitest/node';
import { KeptThread } from './kept-thread.ts';
import { type Change, mutated } from './operators.ts';
import type { Begin, Result } from './session.ts';

const NEVER_MS = 3_600_000;

const [root = '', words = ''] = process.argv.slice(2);
const { file, tests } = JSON.parse(words) as Begin;
const target = join(root, file);
const text = readFileSync(target, 'utf8');
let current = text;

/** The seconds that each file of tests took without a mutation, by its path. */
const seconds = new Map<string, number>();

/** Runs the nearest tests first, but slow ones last: most mutants fail a fast test, and then slow ones need not run. */
class NearestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => tests.findIndex((one) => join(root, one) === moduleId);
    const slowness = ({ moduleId }: TestSpecification) => seconds.get(moduleId) ?? 0;
    return files.toSorted((a, b) => slowness(a) - slowness(b) || place(a) - place(b));
  }
}

const thread = new KeptThread();
const vitest = await createVitest(
  'test',
  {
    ...{ config: false, root, watch: true, include: ['**/*.test.ts'], reporters: [{}], bail: 1 },
    // The compiled original must not be used for the mutant.
    ...{ fsModuleCache: false, isolate: false, pool: thread, maxWorkers: 1 },
    ...{ setupFiles: [join(import.meta.dirname, 'afresh.ts')], provide: { target } },
    // The parent process enforces the time limits.
    ...{ testTimeout: NEVER_MS, hookTimeout: NEVER_MS, sequence: { sequencer: NearestFirst } },
  },
  {
    server: { watch: null },
    plugins: [
      {
        name: 'mutant',
        enforce: 'pre',
        transform: (_, id) => (id.split('?', 1)[0] === target ? current : undefined),
      },
    ],
  },
);
const [project] = vitest.projects;
if (project === undefined) throw new Error('vitest has no project');
const specifications = tests.map((test) => project.createSpecification(join(root, test)));

/** The tests of each file that took almost no time without a mutation, by its path. */
const quick = new Map<string, string[]>();
const QUICK_MS = 200;
/** The files that a run needs up to the one that failed. */
let upToFailure = specifications;

function measure(testModules: readonly TestModule[]): void {
  for (const one of testModules) {
    seconds.set(one.moduleId, Math.floor(one.diagnostic().duration / 1_000));
    const isQuick = (test: TestCase) => (test.diagnostic()?.duration ?? 0) < QUICK_MS;
    const tests = [...one.children.allTests()].filter(isQuick);
    quick.set(
      one.moduleId,
      tests.map(({ id }) => id),
    );
  }
}

async function run(some = specifications): Promise<Result> {
  vitest.invalidateFile(target);
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(some, false);
  if (seconds.size === 0) measure(testModules);
  const all = testModules.flatMap((module) => [...module.children.allTests()]);
  const failed = all.find((test) => test.result().state === 'failed');
  const broken = testModules.find((module) => module.state() === 'failed');
  const by =
    failed?.fullName ??
    broken?.relativeModuleId ??
    (unhandledErrors.length > 0 ? 'an unhandled error' : undefined);
  const longest = seconds.get(broken?.moduleId ?? '') ?? Number.POSITIVE_INFINITY;
  upToFailure = specifications.filter(({ moduleId }) => (seconds.get(moduleId) ?? 0) <= longest);
  return { by, tests: all.length };
}

/**
 * A mutant may have damaged the state of the thread, which must not make the next one fail. Quick tests of the original show
 * whether it has.
 */
async function tidy(): Promise<void> {
  current = text;
  const some = upToFailure.flatMap(({ moduleId, project }) => {
    const testIds = quick.get(moduleId) ?? [];
    return testIds.length === 0 ? [] : [project.createSpecification(moduleId, { testIds })];
  });
  if (some.length === 0 || (await run(some)).by !== undefined) await thread.end();
}

let last = await run();
process.send?.(last);
process.on('disconnect', () => process.exit());
process.on('message', async ({ start, end, instead }: Change) => {
  if (last.by !== undefined) await tidy();
  current = mutated(text, { start, end, instead });
  last = await run();
  process.send?.(last);
});
